// Rank histograms of two models, and scores by group.

function createHistogram(data, state) {
  const several = data.models.length > 1;
  const picks = [make("span"), make("span")];
  const chart = createChart("Number of queries by rank; the table below has the same numbers", 300);
  const gap = createChart("Difference in the number of queries by rank; the table below has the same numbers", 220);
  const gapTitle = heading("Difference");
  const table = make("div");
  find("panel-ranks").append(heading("Distribution of ranks"), make("div", { class: "picks" }, picks), chart,
    ...(several ? [gapTitle, gap] : []), asTable("The numbers", table));
  const names = several ? { first: "First model", second: "Second model" } : { first: "Model" };

  const draw = () => {
    const chosen = Object.keys(names).map((name) => state.values[name]);
    Object.entries(names).forEach(([id, text], i) => {
      showSelect(picks[i], data, { id, text, chosen: chosen[i], pick: (model) => state.update({ [id]: model }) });
    });
    const counted = chosen.map((model) => histogram(data, model));
    const { bins } = counted[0];
    const plain = { showgrid: false, zeroline: false };
    const ticks = { tickvals: bins.map((_, i) => i), ticktext: bins.map(plotText), range: [-0.5, bins.length - 0.5] };
    const xaxis = axis("rank", { ...plain, ...ticks });
    const shifts = several ? [-0.2, 0.2] : [0];
    const bars = chosen.map((model, i) => histogramBars(data, model, counted[i], shifts[i]));
    drawChart(chart, bars, { barmode: "overlay", xaxis, yaxis: axis("queries", { rangemode: "tozero" }) });
    if (several) {
      const [one, other] = chosen.map((model) => label(data.models[model].name));
      gapTitle.replaceChildren(one, " minus ", other);
      const yaxis = axis("queries", { zerolinecolor: themeColour("muted") });
      drawChart(gap, [gapBars(counted, chosen)], { xaxis, yaxis });
    }
    table.replaceChildren(histogramTable(data, chosen, counted));
  };
  return { panel: "ranks", needs: ["first", "second", "theme"], draw };
}

function histogramBars(data, model, { counts, bins }, shift) {
  // The bars of the second model are lighter, so that they do not differ only in colour.
  const colour = modelColour(model);
  const fill = shift > 0 ? mixed(colour, themeColour("surface"), 0.75) : colour;
  const name = plotText(data.models[model].name);
  return {
    type: "bar", x: counts.map((_, i) => i + shift), y: counts, width: shift ? 0.38 : 0.6,
    hoverinfo: "text", textposition: "none",
    text: counts.map((count, i) => `${name}<br>rank ${plotText(bins[i])}: ${RANK.format(count)} queries`),
    marker: { color: fill, line: { color: colour, width: 2 } },
  };
}

function gapBars([one, other], [first, second]) {
  const gaps = one.counts.map((count, i) => count - other.counts[i]);
  return {
    type: "bar", x: gaps.map((_, i) => i), y: gaps, width: 0.6, hoverinfo: "skip", cliponaxis: false,
    text: gaps.map((value) => signed(value, Number.isInteger(value) ? 0 : 1)), textposition: "outside",
    marker: { color: gaps.map((value) => modelColour(value >= 0 ? first : second)) },
  };
}

function histogramTable(data, chosen, counted) {
  const [one, other] = counted;
  const ofModel = (model, at) => ({
    title: markedLabel(data, data.models[model].name), numeric: true, cell: (i) => RANK.format(counted[at].counts[i]),
  });
  const gap = { title: "Difference", numeric: true, cell: (i) => signed(one.counts[i] - other.counts[i], 1) };
  const rank = { title: "Rank", header: true, cell: (i) => one.bins[i] };
  const table = createTable("Number of queries by rank", [rank, ...chosen.map(ofModel), ...(other ? [gap] : [])]);
  table.show(one.bins.map((_, i) => i));
  return table.element;
}

// Scores by popularity, side or relation, as a chart and as a table.

const GROUP_TITLES = { popularity: "Popularity of the target", side: "Predicted side", relation: "Relation" };
const GROUP_REMARKS = {
  popularity: " Popularity in the training split: delta(e) times delta(r|e) of the target; the rarest first.",
};
const GROUPS_PAGE = 25;
const GROUPS_DRAWN = 12;

function createGroups(data, state) {
  const usable = Object.entries(GROUP_TITLES).filter(([by]) => data.hasPopularity || by !== "popularity");
  const select = make("select", { id: "by" }, usable.map(([by, title]) => make("option", { value: by }, title)));
  select.addEventListener("change", () => state.update({ by: select.value, groups: "given", groupsPage: 1 }));
  const chart = createChart("Score by group; the table below has the same numbers", 320);
  const note = make("p", { class: "remark" });
  const drawn = make("p", { class: "remark" });
  const onSort = (key) => state.update({ groups: nextOrder(state.values.groups, key, key !== "label"), groupsPage: 1 });
  const table = createTable("Scores by group at the current alpha and beta", groupColumns(data), onSort);
  const pager = createPager("Groups", (groupsPage) => state.update({ groupsPage }));
  const save = button("Save groups as CSV", () => saveGroups(data, state.values));
  const picks = make("div", { class: "picks" }, make("label", { class: "pick", for: "by" }, "Group by ", select));
  const legend = data.models.length > 1 ? [symbolLegend(data.models.map(({ name }) => markedLabel(data, name)))] : [];
  find("panel-groups").append(heading("Scores by group"), picks, note, ...legend, chart, drawn,
    table.element, pager.element, make("p", { class: "actions" }, save));

  const sampled = data.exact ? "" : ` Computed on a random sample of ${plural(data.counted, "query", "queries")}.`;
  // Labels are placed differently in narrow and wide charts.
  const relayout = calm(() => { if (chart.clientWidth) state.changed(["groups"]); }, CALM_MS);
  let width = 0;
  addEventListener("resize", () => { if (chart.clientWidth !== width) relayout(); });

  const draw = () => {
    width = chart.clientWidth;
    const { by, groups, groupsPage } = state.values;
    select.value = by;
    const rows = groupsInOrder(data, state.values);
    const [from, to] = pager.show(groupsPage, rows.length, GROUPS_PAGE);
    const top = rows.slice(from, Math.min(to, from + GROUPS_DRAWN));
    const marks = `Dots are scores, lines are ${percent(data.level)} confidence intervals.`;
    note.textContent = `At ${pointText(state.values)}. ${marks}${GROUP_REMARKS[by] ?? ""}${sampled}`;
    drawn.textContent = rows.length > top.length
      ? `The chart shows the first ${top.length} groups of this page, of ${plural(rows.length, "group")} in total. Sort to see others.` : "";
    table.show(rows.slice(from, to), groups);
    drawGroups(data, top, chart);
  };
  return { panel: "groups", needs: ["by", "groups", "groupsPage", "theme", "alpha", "beta"], draw };
}

function groupsInOrder(data, { by, alpha, beta, groups }) {
  const valueOf = (row, key) => (/^model\d+$/.test(key) ? row.values?.[Number(key.slice(5))] : row[key]);
  return sortRows(breakdown(data, by, alpha, beta), groups, valueOf);
}

function groupColumns(data) {
  const value = (model) => (row) => {
    const best = data.models.length > 1 && row.values.every((other) => !(other > row.values[model]));
    const range = make("small", { class: "range-text" }, rangeText(row.low[model], row.high[model], 3));
    const doubt = row.trusted[model] ? null : make("small", { class: "noise" }, "unreliable");
    return [make(best ? "strong" : "span", {}, fixed(row.values[model])), range, doubt];
  };
  const ofModel = (_, index) => ({
    key: `model${index}`, title: modelName(data, index), numeric: true, cell: value(index),
  });
  return [
    { key: "label", title: "Group", header: true, cell: (row) => label(row.label) },
    { key: "queries", title: "Queries", numeric: true, cell: (row) => whole(row.queries) },
    { key: "share", title: "Weight", numeric: true, cell: (row) => percent(row.share) },
    ...data.models.map(ofModel),
  ];
}

function saveGroups(data, values) {
  const ofModel = ({ name }) => [name, `${name} low`, `${name} high`];
  const header = ["group", "queries", "weight", ...data.models.flatMap(ofModel)];
  const rows = groupsInOrder(data, values).map((row) => {
    const numbers = data.models.flatMap((_, model) => [row.values[model], row.low[model], row.high[model]]);
    return [row.label, row.queries, row.share, ...numbers];
  });
  saveCsv(`scores_by_${values.by}.csv`, header, rows);
}

// Dot chart of scores with intervals, one row per group.

// Models differ in shape as well as in colour: Plotly's name of each shape, and its character in the legend.
const SYMBOLS = [
  ["circle", "●"], ["square", "■"], ["diamond", "◆"], ["triangle-up", "▲"],
  ["triangle-down", "▼"], ["star", "★"], ["cross", "✚"], ["hexagon", "⬢"],
];
const NARROW = 560;

function symbolOf(index) {
  return SYMBOLS[index % SYMBOLS.length];
}

function symbolLegend(names) {
  const items = names.map((name, index) => {
    const mark = { style: `color:${modelColour(index)}`, "aria-hidden": "true" };
    return make("li", {}, make("span", mark, symbolOf(index)[1]), " ", name);
  });
  return make("ul", { class: "legend in-line" }, items);
}

function drawGroups(data, rows, chart) {
  const models = data.models.length;
  const narrow = chart.clientWidth < NARROW;
  const gap = Math.min(0.13, (narrow ? 0.6 : 0.8) / models);
  const names = rows.map((row) => plotText(row.label));
  // On a narrow screen the labels are above the dots.
  const above = names.map((text, i) => ({
    text, y: 0.46 - i, x: 0, xref: "paper", xanchor: "left", showarrow: false, font: { size: 12 },
  }));
  const height = 70 + rows.length * Math.max(narrow ? 60 : 36, 12 * Math.min(models, 12));
  chart.style.height = `${height}px`;
  drawChart(chart, data.models.map((_, index) => dots(data, index, rows, (index - (models - 1) / 2) * gap)), {
    height, // else Plotly keeps the first height
    margin: { l: 16, r: 16, t: 8, b: 44 },
    xaxis: axis("score", { nticks: narrow ? 5 : 10, zeroline: false }),
    yaxis: axis("", {
      tickvals: names.map((_, i) => -i), ticktext: names, showticklabels: !narrow, zeroline: false,
      range: [0.4 - names.length, 0.6],
    }),
    annotations: narrow ? above : [],
  });
}

function dots(data, index, rows, shift) {
  const color = modelColour(index);
  const text = rows.map((row) => [
    plotText(data.models[index].name),
    `${plotText(row.label)}: ${fixed(row.values[index])}`,
    rangeText(row.low[index], row.high[index]),
  ].join("<br>"));
  return {
    type: "scatter", mode: "markers", hoverinfo: "text", text,
    x: rows.map((row) => row.values[index]),
    y: rows.map((_, i) => -i - shift),
    marker: { size: 9, color, symbol: symbolOf(index)[0] },
    error_x: {
      type: "data", symmetric: false, thickness: 1.5, width: 0, color,
      array: rows.map((row) => row.high[index] - row.values[index]),
      arrayminus: rows.map((row) => row.values[index] - row.low[index]),
    },
  };
}
