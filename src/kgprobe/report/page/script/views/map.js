// Which model wins where: the decision map, and one model's heat map beside it.

const POINT_MS = 60;
const REFINE_MS = 400;

function createMap(data, state) {
  if (!hasScores(data)) {
    find("panel-map").append(make("p", {}, "No query counts: each has a single candidate, so there is no map."));
    return [];
  }
  const several = data.models.length > 1;
  const maps = [...(several ? [createDecision(data, state)] : []), createHeat(data, state)];
  const grid = createCoarse(data, state);
  const status = make("p", { class: "remark", role: "status" });
  find("panel-map").append(...maps.map((map) => map.element), status, asTable("The map as a table", grid.element));
  find("panel-map").classList.add("maps");

  const planes = {};
  const plane = () => (planes[state.values.wide] ??= createSurface(data, state.values.wide === "yes"));
  const paint = () => {
    const { done, alphas } = plane();
    if (state.values.tab !== "map" || !done) return;
    maps.forEach((map) => map.draw(plane()));
    grid.draw(plane());
    status.textContent = done < alphas.length ? `Computing the map: ${percent(done / alphas.length)}.` : "";
  };
  const refine = throttled(paint, REFINE_MS);
  let moved = -Infinity;
  const fill = async () => {
    const mine = plane();
    if (mine.busy) return;
    mine.busy = true;
    const wanted = () => mine === plane() && state.values.tab === "map";
    await fillSurface(data, mine, wanted, () => moved, refine);
    mine.busy = false;
  };
  const movePoints = throttled(() => maps.forEach((map) => movePoint(map.chart, state.values)), POINT_MS);
  const draw = () => {
    paint();
    fill();
  };
  const follow = () => {
    moved = performance.now();
    movePoints();
  };
  return [
    { panel: "map", needs: ["wide", "heat", "theme", "tab"], draw },
    { panel: "map", needs: ["alpha", "beta"], live: true, draw: follow },
  ];
}

function createDecision(data, state) {
  const chart = createMapChart(data, "Map of the best model");
  const legend = make("ul", { class: "legend" });
  const text = "Colour: the best model. Hatched and lighter: its lead is within noise. Click to go there. "
    + noiseText(data);
  const element = make("div", {}, heading("Which model to pick"), make("p", { class: "remark" }, text), legend, chart);
  const draw = (plane) => {
    drawPlane(chart, state, plane, [decisionTrace(data, plane), hatching(plane)]);
    legend.replaceChildren(...wonShares(data, plane));
  };
  return { element, chart, draw };
}

function createHeat(data, state) {
  const several = data.models.length > 1;
  const chart = createMapChart(data, several ? "Heat map of the chosen model" : "Heat map of the score");
  const choice = make("div");
  const title = several ? "Where one model is strong" : "Score over the plane";
  const text = several
    ? "At each point the worst model has 0 and the best has 1."
    : "The score itself; with a second model this becomes a comparison.";
  const element = make("div", {}, heading(title), make("p", { class: "remark" }, text), choice, chart);
  const pick = (model) => state.update({ heat: model });
  const draw = (plane) => {
    if (several) showSelect(choice, data, { id: "heat", text: "Model", chosen: state.values.heat, pick });
    drawPlane(chart, state, plane, [heatTrace(data, state.values.heat, plane)]);
  };
  return { element, chart, draw };
}

function createMapChart(data, what) {
  const height = data.hasPopularity ? 400 : 130; // without popularity the plane is a line
  return createChart(`${what} over alpha and beta; the table below says the same`, height);
}

function drawPlane(chart, state, plane, traces) {
  // A margin in which the mark of the current point has room at the edges.
  const ends = (values) => {
    const half = values.length > 1 ? (values[1] - values[0]) / 2 : 0.5;
    const room = 0.035 * (values.at(-1) - values[0]);
    return [values[0] - half - room, values.at(-1) + half + room];
  };
  const plain = { showgrid: false, zeroline: false };
  drawChart(chart, traces, {
    xaxis: axis("alpha (sharpness)", { ...plain, range: ends(plane.alphas) }),
    yaxis: axis(plane.betas.length === 1 ? "beta" : "beta (rarity)", { ...plain, range: ends(plane.betas), nticks: plane.betas.length === 1 ? 1 : 10 }),
    shapes: [pointShape(state.values)],
  });
  if (chart.dataset.clicks) return;
  chart.dataset.clicks = "yes"; // Plotly gives the element its own events with the first drawing
  chart.on("plotly_click", ({ points: [point] }) => state.update({ alpha: point.x, beta: point.y }));
}

// A shape rather than a trace: moving it redraws nothing else.
function pointShape({ alpha, beta }) {
  const size = 7;
  return {
    type: "circle", xsizemode: "pixel", ysizemode: "pixel", xanchor: alpha, yanchor: beta,
    x0: -size, x1: size, y0: -size, y1: size,
    fillcolor: themeColour("surface"), line: { width: 3, color: themeColour("text") },
  };
}

function movePoint(chart, { alpha, beta }) {
  if (chart.data) Plotly.relayout(chart, { "shapes[0].xanchor": alpha, "shapes[0].yanchor": beta });
}
