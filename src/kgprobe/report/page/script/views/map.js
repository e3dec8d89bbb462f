// Decision map of the best models, and heat map of one model, over the (alpha, beta) plane.

const POINT_MS = 60;
const REFINE_MS = 400;

function createMap(data, state) {
  if (!hasScores(data)) {
    find("panel-map").append(make("p", {}, "Every query has a single candidate, so there is no map."));
    return [];
  }
  const several = data.models.length > 1;
  const heat = createHeat(data, state);
  const maps = [...(several ? [createDecision(data, state)] : []), heat];
  const grid = createCoarse(data, state);
  const status = make("p", { class: "remark", role: "status" });
  find("panel-map").append(...maps.map((map) => map.element), status, asTable("The map as a table", grid.element));
  find("panel-map").classList.add("maps");

  const planeOf = (wide) => kept(state.chosen(), `plane ${wide}`, () => createSurface(state.chosen(), wide === "yes"));
  const plane = () => planeOf(state.values.wide);
  const paint = () => {
    const { done, alphas } = plane();
    if (state.values.tab !== "map" || !done) return;
    maps.forEach((map) => map.draw(plane(), state.chosen()));
    grid.draw(plane(), state.chosen());
    status.textContent = done < alphas.length ? `Computing the map: ${percent(done / alphas.length)}.` : "";
  };
  const refine = throttled(paint, REFINE_MS);
  let moved = -Infinity;
  const fill = async () => {
    const [mine, chosen] = [plane(), state.chosen()];
    if (mine.busy) return;
    mine.busy = true;
    const wanted = () => mine === plane() && state.values.tab === "map";
    await fillSurface(chosen, mine, wanted, () => moved, refine);
    mine.busy = false;
  };
  const movePoints = throttled(() => maps.forEach((map) => movePoint(map.chart, state.values)), POINT_MS);
  const content = [...find("panel-map").children];
  const empty = make("p", { hidden: true }, "No query of this choice has more than one candidate, so there is no map.");
  find("panel-map").append(empty);
  const draw = () => {
    empty.hidden = hasScores(state.chosen());
    content.filter((part) => !part.matches(".panel-title")).forEach((part) => { part.hidden = !empty.hidden; });
    if (!empty.hidden) return;
    paint();
    fill();
  };
  // Where no model was chosen, the heat map is that of the best one.
  const drawBest = () => { if (heat.model() !== oneOf(state.chosen(), state.values)) paint(); };
  const follow = () => {
    moved = performance.now();
    movePoints();
  };
  return [
    { panel: "map", needs: ["wide", "heat", "theme", "tab", ...CHOICE], draw },
    { panel: "map", needs: ["alpha", "beta"], draw: drawBest },
    { panel: "map", needs: ["alpha", "beta"], live: true, draw: follow },
  ];
}

function createDecision(data, state) {
  const chart = createMapChart(data, "Map of the best model");
  const legend = make("ul", { class: "legend" });
  const text = "Colour: the best model. Hatched and lighter: its lead is not significant. Click to select a point. "
    + noiseText(data);
  const element = make("div", {}, heading("Best model"), make("p", { class: "remark" }, text), legend,
    framed(chart, "decision_map"));
  const draw = (plane, chosen) => {
    element.hidden = chosen.shown.length === 1;
    if (element.hidden) return;
    const entries = chosen.shown.map((model) => legendEntry(data.models[model]));
    drawPlane(chart, state, plane, [decisionTrace(data, plane), hatching(plane), ...entries], "Best model; hatched: lead not significant");
    legend.replaceChildren(...wonShares(chosen, plane));
  };
  return { element, chart, draw };
}

function createHeat(data, state) {
  const several = data.models.length > 1;
  const chart = createMapChart(data, several ? "Heat map of the chosen model" : "Heat map of the score");
  const choice = make("div");
  const title = several ? "Relative score of one model" : "Score over the plane";
  const text = make("p", { class: "remark" });
  const element = make("div", {}, heading(title), text, choice, framed(chart, "heat_map"));
  const pick = (heat) => state.update({ heat });
  let drawn = null;
  const draw = (plane, chosen) => {
    drawn = oneOf(chosen, state.values);
    text.textContent = chosen.shown.length > 1 ? "At each point 0 is the worst model and 1 the best."
      : "Absolute score, because only one model is shown.";
    if (several) showSelect(choice, chosen, { id: "heat", text: "Model", chosen: drawn, pick });
    drawPlane(chart, state, plane, [heatTrace(chosen, drawn, plane)], `${title}: ${data.models[drawn].name}`);
  };
  return { element, chart, draw, model: () => drawn };
}

function createMapChart(data, what) {
  const height = data.hasPopularity ? 400 : 130; // without popularity the plane is a line
  return createChart(`${what} over alpha and beta; the table below has the same content`, height);
}

function drawPlane(chart, state, plane, traces, title) {
  // A margin for the mark of the current point at the edges.
  const ends = (values) => {
    const half = values.length > 1 ? (values[1] - values[0]) / 2 : 0.5;
    const room = 0.035 * (values.at(-1) - values[0]);
    return [values[0] - half - room, values.at(-1) + half + room];
  };
  const plain = { showgrid: false, zeroline: false };
  drawChart(chart, traces, {
    xaxis: axis("alpha (sharpness)", { ...plain, range: ends(plane.alphas) }),
    yaxis: axis(plane.betas.length === 1 ? "beta" : "beta (robustness)", { ...plain, range: ends(plane.betas), nticks: plane.betas.length === 1 ? 1 : 10 }),
    shapes: [pointShape(state.values)],
  }, title);
  if (chart.dataset.clicks) return;
  chart.dataset.clicks = "yes"; // Plotly adds its events at the first drawing
  chart.on("plotly_click", ({ points: [point] }) => state.update({ alpha: point.x, beta: point.y }));
}

// A shape instead of a trace: moving it does not redraw the plot.
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

// Scores over the whole (alpha, beta) plane, computed in time slices so that the sliders stay responsive.

const STEPS = { narrow: { alpha: 0.05, beta: 0.05 }, wide: { alpha: 0.25, beta: 0.2 } };
const SLICE_MS = 25;
const REST_MS = 300;

function gridAxis([low, high], step) {
  const count = Math.round((high - low) / step);
  // Rounded, so that a click lands on 0.3 and not on 0.30000000000000004.
  return Array.from({ length: count + 1 }, (_, i) => Number((low + i * step).toFixed(6)));
}

// Column order for progressive refinement: every eighth column first, then those between.
function coarseToFine(count) {
  const columns = Array.from({ length: count }, (_, i) => i);
  const fineness = (i) => [8, 4, 2, 1].findIndex((stride) => i % stride === 0);
  return columns.sort((a, b) => fineness(a) - fineness(b) || a - b);
}

function pause(milliseconds = 0) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function createSurface(data, wide) {
  const range = wide ? "wide" : "narrow";
  const alphas = gridAxis(RANGES[range].alpha, STEPS[range].alpha);
  const betas = data.hasPopularity ? gridAxis(RANGES[range].beta, STEPS[range].beta) : [0];
  const columns = alphas.map(() => null); // by alpha: {scores: [model][beta], winner: [beta], beyond: [beta]}
  return { alphas, betas, columns, done: 0, points: 1 };
}

// Stops when the plane is no longer shown; continues when called again.
async function fillSurface(data, plane, wanted, moved, show) {
  let slice = performance.now();
  for (const i of coarseToFine(plane.alphas.length).filter((column) => !plane.columns[column])) {
    const column = { scores: data.models.map((_, model) => (data.shown.includes(model) ? [] : null)), winner: [], beyond: [] };
    while (column.winner.length < plane.betas.length) {
      if (performance.now() - slice > SLICE_MS) {
        await pause();
        while (performance.now() - moved() < REST_MS) await pause(REST_MS);
        if (!wanted()) return;
        slice = performance.now();
      }
      extendColumn(data, plane, plane.alphas[i], column);
    }
    plane.columns[i] = column;
    plane.done += 1;
    show();
  }
}

// As many points as fit a slice at the pace of the last ones.
function extendColumn(data, plane, alpha, column) {
  const at = column.winner.length;
  const betas = plane.betas.slice(at, at + plane.points);
  const start = performance.now();
  const part = surface(data, [alpha], betas);
  plane.points = Math.max(1, Math.floor((SLICE_MS * betas.length) / (performance.now() - start + 0.1)));
  part.scores.forEach((scores, model) => column.scores[model].push(...scores[0]));
  column.winner.push(...part.winner[0]);
  column.beyond.push(...part.beyond[0]);
}

// The column at this alpha, or the nearest one already computed.
function columnAt(plane, i) {
  const near = plane.alphas.map((_, distance) => plane.columns[i - distance] ?? plane.columns[i + distance]);
  return near.find((column) => column);
}

// Scores scaled to [0, 1] between the worst and the best model at each point (RQ3 of the paper); unscaled for a single
// model.
function normalised(column, model, at) {
  const shown = column.scores.filter((scores) => scores !== null);
  const values = shown.map((scores) => scores[at]).filter(Number.isFinite);
  const value = column.scores[model][at];
  if (shown.length === 1) return value;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high > low ? (value - low) / (high - low) : NaN;
}

// Plotly traces of the plane.

// Rows are betas and columns are alphas, as Plotly expects.
function overPlane(plane, valueAt) {
  const columns = plane.alphas.map((_, i) => columnAt(plane, i));
  return plane.betas.map((_, at) => columns.map((column, i) => valueAt(column, at, i)));
}

function planeTrace(plane, z, words, rest) {
  const text = overPlane(plane, (column, at, i) =>
    `${words(column, at)}<br>${pointText({ alpha: plane.alphas[i], beta: plane.betas[at] })}`);
  return { type: "heatmap", x: plane.alphas, y: plane.betas, z: overPlane(plane, z), text, hoverinfo: "text", ...rest };
}

// Two steps of the colour scale per model: significant and not significant lead.
function decisionTrace(data, plane) {
  const ground = themeColour("surface");
  const colours = data.models.flatMap((model) => [modelColour(model), mixed(modelColour(model), ground, 0.62)]);
  const top = colours.length;
  const code = (column, at) => 2 * column.winner[at] + (column.beyond[at] ? 0 : 1) + 0.5;
  const words = (column, at) =>
    `${plotText(data.models[column.winner[at]].name)}, ${column.beyond[at] ? "" : "not "}significant`;
  const colorscale = colours.flatMap((colour, i) => [[i / top, colour], [(i + 1) / top, colour]]);
  return planeTrace(plane, code, words, { zmin: 0, zmax: top, showscale: false, colorscale });
}

// Hatching where the lead is not significant, so that it does not depend on colour.
function hatching(plane) {
  const open = plane.alphas.flatMap((alpha, i) => {
    const { beyond } = columnAt(plane, i);
    return plane.betas.filter((_, at) => !beyond[at]).map((beta) => [alpha, beta]);
  });
  return {
    type: "scatter", mode: "markers", x: open.map(([x]) => x), y: open.map(([, y]) => y), hoverinfo: "skip",
    name: "not significant",
    marker: { symbol: "line-ne-open", size: 8, color: themeColour("text"), opacity: 0.5, line: { width: 1 } },
  };
}

function heatTrace(data, model, plane) {
  const several = data.shown.length > 1;
  const value = (column, at) => normalised(column, model, at);
  const words = (column, at) => `${several ? "Relative score: " : "Score: "}${fixed(value(column, at), 3)}`;
  const scale = several ? { zmin: 0, zmax: 1 } : {};
  const colorbar = { thickness: 10, outlinewidth: 0, tickcolor: themeColour("line") };
  return planeTrace(plane, value, words, { ...scale, colorscale: "Cividis", colorbar });
}

// The share of the plane that each model wins.
function wonShares(data, plane) {
  const cells = overPlane(plane, (column, at) => [column.winner[at], column.beyond[at]]).flat();
  const share = (wanted) => cells.filter(wanted).length / cells.length;
  const models = data.models.map((_, index) => ({
    index,
    won: share(([winner]) => winner === index),
    sure: share(([winner, beyond]) => winner === index && beyond),
  }));
  return models.filter(({ won }) => won > 0).sort((a, b) => b.won - a.won).map(({ index, won, sure }) => {
    const text = ` ${percent(won)} of the plane, ${percent(sure)} significantly`;
    return make("li", {}, modelName(data, index), make("span", { class: "remark" }, text));
  });
}

// The map on the paper's grid as a table; each cell is a button that selects its point.

const COARSE = { alpha: [-1, -0.5, 0, 0.5, 1], beta: [0.8, 0.6, 0.4, 0.2, 0] };

function createCoarse(data, state) {
  const title = make("caption");
  const body = make("tbody");
  const betas = data.hasPopularity ? COARSE.beta : [0];
  const heads = COARSE.alpha.map((alpha) => make("th", { scope: "col" }, `alpha ${shortNumber(alpha)}`));
  const table = make("table", { class: "coarse" }, title, make("thead", {}, make("tr", {}, make("td"), heads)), body);
  const region = { class: "box", tabindex: "0", role: "region", "aria-label": "The map as a table" };
  const element = make("div", region, table);

  const cell = (plane, chosen, alpha, beta) => {
    const several = chosen.shown.length > 1;
    const column = plane.columns[plane.alphas.indexOf(alpha)];
    const at = plane.betas.indexOf(beta);
    if (!column) return make("td", {}, "not computed yet");
    const value = fixed(normalised(column, oneOf(chosen, state.values), at), several ? 2 : 4);
    const where = unseen(` at ${pointText({ alpha, beta })}`);
    const go = { type: "button", class: "go", onclick: () => state.update({ alpha, beta }) };
    if (!several) return make("td", {}, make("button", go, value, where));
    const noise = make("span", { class: "remark" }, column.beyond[at] ? "significant" : "not significant");
    const winner = make("button", go, modelName(data, column.winner[at]), where);
    return make("td", {}, winner, noise, make("span", { class: "remark" }, `${value} of 1`));
  };
  const draw = (plane, chosen) => {
    const model = label(data.models[oneOf(chosen, state.values)].name);
    title.replaceChildren(...(chosen.shown.length > 1
      ? ["The best model at each point, and the relative score of ", model, " between the worst (0) and the best (1)"]
      : ["Score of ", model, " at each point"]));
    const row = (beta) => make("tr", {}, make("th", { scope: "row" }, `beta ${shortNumber(beta)}`),
      COARSE.alpha.map((alpha) => cell(plane, chosen, alpha, beta)));
    body.replaceChildren(...betas.map(row));
  };
  return { element, draw };
}
