// Metrics with missing triples: the scores of all checkpoints in the open and the closed world, and the order of the
// models.

// Statistics of a metric: key, title and number format.
const CONSISTENCY = [
  ["tau", "Tau", fixed],
  ["rho", "Rho", fixed],
  ["discordant", "Discordant", whole],
  ["tied", "Tied", whole],
  ["late_tau", "Late tau", fixed],
  ["residual", "Residual", fixed],
  ["spread", "Spread", fixed],
  ["late_tau_mrr", "Tau to MRR", fixed],
  ["inverted", "Inverted", whole],
  ["discrimination", "Range", fixed],
  ["gap", "Gap", fixed],
];

function createOpenWorld(data, state) {
  const worlds = data.openWorld;
  const verdict = make("div");
  const legend = make("div");
  const scatter = createChart("Open-world and closed-world value of each checkpoint; the table below has both", 420);
  const order = createChart("Order of the models in both worlds; the table below has the places", 420);
  const orderTitle = heading("");
  const [places, differences, notes] = Array.from({ length: 3 }, () => make("section"));
  const metrics = worlds[0].metrics.map(({ name }) => name);
  const selects = [
    ...(worlds.length > 1 ? [createPick(state, "world", "World", worlds.map(({ name }) => name))] : []),
    createPick(state, "worldMetric", "Metric", metrics),
  ];
  const table = createTable("Consistency of each metric", [
    { key: "given", title: "Metric", header: true, unsorted: true, cell: (metric) => label(metric.name) },
    ...CONSISTENCY.map(([key, title, write]) => ({
      key, title, numeric: true, cell: ({ statistics: row }) => write(row[key] ?? NaN),
    })),
  ], (key) => state.update({ worldSort: nextOrder(state.values.worldSort, key, true) }));
  find("panel-openworld").append(
    heading("Order of models with and without missing triples"), verdict,
    make("div", { class: "picks" }, selects.map(({ element }) => element)), legend,
    make("div", { class: "maps" },
      make("div", {}, heading("Scores in both worlds"),
        make("p", { class: "remark" }, "Each line is a model, each mark a checkpoint. On the grey line both worlds agree."),
        framed(scatter, "open_world")),
      make("div", {}, orderTitle,
        make("p", { class: "remark" }, "Each model at its best open-world checkpoint, the best on the left. ",
          "Crossing lines are pairs of models whose order changes."), framed(order, "open_world_order")),
      asTable("The models as a table", places)),
    heading("Consistency of each metric"), table.element, differences, notes,
  );

  const draw = () => {
    selects.forEach((select) => select.show());
    const world = worlds[state.values.world];
    const metric = world.metrics[state.values.worldMetric];
    verdict.replaceChildren(...world.verdict.map((text, i) => make("p", { class: i ? null : "verdict" }, text)));
    legend.replaceChildren(symbolLegend(world.looks.map((look, i) => ({ ...look, title: label(world.models[i]) }))));
    const { inverted, model_pairs: pairs } = metric.statistics;
    orderTitle.textContent = `Order of the models: ${whole(inverted)} of ${plural(pairs, "pair")} inverted`;
    drawWorlds(scatter, world, metric);
    drawOrder(order, world, metric);
    places.replaceChildren(placesTable(world, metric));
    const rows = sortRows(world.metrics, state.values.worldSort, (row, key) => row.statistics?.[key]);
    table.show(rows, state.values.worldSort);
    differences.replaceChildren(...(world.differences.length ? [heading("PROBE against pMRR"), tauTable(world)] : []));
    notes.replaceChildren(...worldNotes(data, world));
  };
  const needs = ["world", "worldMetric", "worldSort", "theme"];
  return { panel: data.runs ? "openworld" : undefined, needs, draw };
}

// A select element by index, created once: a new element would lose the focus.
function createPick(state, id, text, names) {
  const options = names.map((name, index) => make("option", { value: index }, name));
  const select = make("select", { id, dir: "auto" }, options);
  select.addEventListener("change", () => state.update({ [id]: Number(select.value) }));
  const element = make("label", { class: "pick", for: id }, text, " ", select);
  return { element, show: () => { select.value = state.values[id]; } };
}

// The points of a model, sorted by closed-world value.
function pointsOf(world, metric, index) {
  const own = world.model.map((_, point) => point).filter((point) => world.model[point] === index);
  return own.sort((a, b) => metric.closed[a] - metric.closed[b]);
}

function pointLabel(world, metric, point) {
  const name = plotText(world.models[world.model[point]]);
  const values = `open ${fixed(metric.open[point])}, closed ${fixed(metric.closed[point])}`;
  return `${name}, ${plotText(world.checkpoints[point])}<br>${values}`;
}

function modelTrace(world, index, rest) {
  const color = modelColour(world.looks[index]);
  return {
    type: "scatter", mode: "lines+markers", hoverinfo: "text", line: { color, width: 1.5 },
    marker: { size: 7, color, symbol: symbolOf(world.looks[index])[0] },
    name: plotText(world.models[index]), ...rest,
  };
}

function withRoom(values) {
  const [low, high] = extremes(values);
  const room = 0.04 * (high - low || 1);
  return [low - room, high + room];
}

function drawWorlds(chart, world, metric) {
  // The axes have separate ranges, because open-world values often differ very little.
  const [across, up] = [metric.closed, metric.open].map(withRoom);
  const both = extremes([...across, ...up]);
  const equal = {
    type: "scatter", mode: "lines", hoverinfo: "skip", x: both, y: both, line: { color: themeColour("muted"), width: 1 },
  };
  const lines = world.models.map((_, index) => {
    const own = pointsOf(world, metric, index);
    return modelTrace(world, index, {
      x: own.map((point) => metric.closed[point]), y: own.map((point) => metric.open[point]),
      text: own.map((point) => pointLabel(world, metric, point)),
    });
  });
  const better = metric.higherIsBetter ? "" : " (lower is better)";
  drawChart(chart, [equal, ...lines], {
    xaxis: axis(`closed world${better}`, { range: across, zeroline: false }),
    yaxis: axis(`open world${better}`, { range: up, zeroline: false }),
  }, metric.name);
}

function drawOrder(chart, world, metric) {
  const lines = world.models.map((_, index) => modelTrace(world, index, {
    x: [metric.byOpen.indexOf(index), metric.byClosed.indexOf(index)], y: [1, 0],
    text: Array(2).fill(pointLabel(world, metric, metric.best[index])),
  }));
  const plain = { showgrid: false, zeroline: false, showline: false };
  drawChart(chart, lines, {
    xaxis: axis("", { ...plain, showticklabels: false, range: [-0.6, world.models.length - 0.4] }),
    yaxis: axis("", { ...plain, tickvals: [0, 1], ticktext: ["closed", "open"], range: [-0.15, 1.15] }),
  }, `Order of the models by ${metric.name}`);
}

function placesTable(world, metric) {
  const table = createTable("Places of the models in both worlds", [
    { title: "Model", header: true, cell: (index) => label(world.models[index]) },
    { title: "Best open-world checkpoint", cell: (index) => label(world.checkpoints[metric.best[index]]) },
    { title: "Open", numeric: true, cell: (index) => fixed(metric.open[metric.best[index]], 6) },
    { title: "Closed", numeric: true, cell: (index) => fixed(metric.closed[metric.best[index]], 6) },
    { title: "Place, open", numeric: true, cell: (index) => whole(metric.byOpen.indexOf(index) + 1) },
    { title: "Place, closed", numeric: true, cell: (index) => whole(metric.byClosed.indexOf(index) + 1) },
  ]);
  table.show(metric.byOpen);
  return table.element;
}

const VERDICTS = { more: "more consistent", less: "less consistent", equal: "equally consistent", undecided: "undecided" };

function tauTable(world) {
  const value = ({ difference, low, high }) => [
    signed(difference), make("small", { class: "range-text" }, rangeText(low, high)),
  ];
  const table = createTable("Differences of Kendall's tau", [
    { title: "First", header: true, cell: ({ first }) => label(first) },
    { title: "Second", cell: ({ second }) => label(second) },
    { title: "Points", cell: ({ points }) => points },
    { title: "Difference of tau", numeric: true, cell: value },
    { title: "The first is", cell: ({ verdict }) => VERDICTS[verdict] },
  ]);
  table.show(world.differences);
  return table.element;
}

function worldNotes(data, world) {
  const several = data.openWorld.length > 1;
  const notes = [
    `${plural(world.model.length, "point")} of ${plural(world.models.length, "model")}, `
      + `${plural(world.queries, "known answer")}.`,
    "Tau (Kendall) and rho (Spearman) are between both worlds over all points; discordant and tied count pairs of points.",
    `Late points have a closed-world MRR above ${world.late}. On them, residual is the distance of closed-world values `
      + "from a monotone fit on open-world values, relative to their range; spread is the open-world difference between "
      + "models with equal closed-world values, relative to the open-world gain; tau to MRR is between the open-world "
      + "value and the closed-world MRR.",
    "Inverted counts the pairs of models whose order changes, each at its best open-world checkpoint. Range is the range "
      + "of open-world values at the last checkpoints: a consistent metric is useful only if it discriminates between "
      + "models. Gap is the difference between the worlds, on a scale where chance to perfect is 1.",
    "Intervals resample whole models, because checkpoints of one model are correlated. The best checkpoints are chosen "
      + "by the scores shown, not by validation.",
    ...(several ? ["Worlds are evaluated separately: scores of different worlds are not comparable."] : []),
    ...world.notes,
  ];
  return [heading("Explanation of the columns"), make("ul", { class: "notes" }, notes.map((text) => make("li", {}, text)))];
}
