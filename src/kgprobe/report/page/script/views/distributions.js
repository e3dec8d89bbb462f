// Rank histograms of two models, and scores by group.

function createHistogram(data, state) {
  const several = data.models.length > 1;
  const picks = [make("span"), make("span")];
  const chart = createChart("Number of queries by rank; the table below has the same numbers", 300);
  const gap = createChart("Difference in the number of queries by rank; the table below has the same numbers", 220);
  const gapTitle = heading("Difference");
  const gapPart = make("div", {}, gapTitle, framed(gap, "rank_difference"));
  const table = make("div");
  const remark = make("p", { class: "remark" });
  find("panel-ranks").append(heading("Distribution of ranks"), make("div", { class: "picks" }, picks), remark,
    framed(chart, "ranks"), ...(several ? [gapPart] : []), asTable("The numbers", table));
  const names = several ? { first: "First model", second: "Second model" } : { first: "Model" };

  const draw = () => {
    const chosen = state.chosen();
    const pair = pairOf(chosen, state.values);
    Object.entries(names).forEach(([id, text], i) => {
      picks[i].hidden = i >= pair.length;
      showSelect(picks[i], chosen, { id, text, chosen: pair[i], pick: (model) => state.update({ [id]: model }) });
    });
    const picked = [state.values.first, state.values.second].some((model) => model !== ALL);
    remark.textContent = picked || pair.length === 1 ? "" : `The two best models at ${pointText(state.values)}.`;
    const counted = pair.map((model) => histogram(chosen, model));
    const { bins } = counted[0];
    const plain = { showgrid: false, zeroline: false };
    const ticks = { tickvals: bins.map((_, i) => i), ticktext: bins.map((bin) => plotText(bin)), range: [-0.5, bins.length - 0.5] };
    const xaxis = axis("rank", { ...plain, ...ticks });
    const shifts = pair.length > 1 ? [-0.2, 0.2] : [0];
    const bars = pair.map((model, i) => histogramBars(data, model, counted[i], shifts[i]));
    drawChart(chart, bars, { barmode: "overlay", xaxis, yaxis: axis("queries", { rangemode: "tozero" }) }, "Number of queries by rank");
    gapPart.hidden = pair.length === 1;
    if (!gapPart.hidden) {
      const [one, other] = pair.map((model) => data.models[model].name);
      gapTitle.replaceChildren(label(one), " minus ", label(other));
      const yaxis = axis("queries", { zerolinecolor: themeColour("muted") });
      drawChart(gap, [gapBars(data, counted, pair)], { xaxis, yaxis }, `Number of queries: ${one} minus ${other}`);
    }
    table.replaceChildren(histogramTable(data, pair, counted));
  };
  return { panel: "ranks", needs: ["first", "second", "theme", "alpha", "beta", ...CHOICE], draw };
}

function histogramBars(data, model, { counts, bins }, shift) {
  // The bars of the second model are lighter, so that they do not differ only in colour.
  const colour = modelColour(data.models[model]);
  const fill = shift > 0 ? mixed(colour, themeColour("surface"), 0.75) : colour;
  const name = plotText(data.models[model].name);
  return {
    type: "bar", name, x: counts.map((_, i) => i + shift), y: counts, width: shift ? 0.38 : 0.6,
    hoverinfo: "text", textposition: "none",
    text: counts.map((count, i) => `${name}<br>rank ${plotText(bins[i])}: ${RANK.format(count)} queries`),
    marker: { color: fill, line: { color: colour, width: 2 } },
  };
}

function gapBars(data, [one, other], [first, second]) {
  const gaps = one.counts.map((count, i) => count - other.counts[i]);
  return {
    type: "bar", x: gaps.map((_, i) => i), y: gaps, width: 0.6, hoverinfo: "skip", cliponaxis: false,
    text: gaps.map((value) => signed(value, Number.isInteger(value) ? 0 : 1)), textposition: "outside",
    marker: { color: gaps.map((value) => modelColour(data.models[value >= 0 ? first : second])) },
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

// By kind of group: its title, and the field of the filter that a click on a group sets.
const GROUP_KINDS = {
  popularity: { title: "Popularity of the target", filter: "band" },
  side: { title: "Predicted side", filter: "side" },
  relation: { title: "Relation", filter: "relation" },
};
const GROUP_REMARKS = {
  popularity: " Popularity counts the training triples of the relation that have the target; the rarest targets first.",
};
const GROUPS_PAGE = 25;
const GROUPS_DRAWN = 12;

function createGroups(data, state) {
  const usable = Object.entries(GROUP_KINDS).filter(([by]) => data.hasPopularity || by !== "popularity");
  const select = make("select", { id: "by" }, usable.map(([by, { title }]) => make("option", { value: by }, title)));
  select.addEventListener("change", () => state.update({ by: select.value, groups: "given", groupsPage: 1 }));
  const chart = createChart("Score by group; the table below has the same numbers", 320);
  const note = make("p", { class: "remark" });
  const heaviest = make("p");
  const drawn = make("p", { class: "remark" });
  const onSort = (key) => state.update({ groups: nextOrder(state.values.groups, key, key !== "label"), groupsPage: 1 });
  const table = createTable("Scores by group at the current alpha and beta", [], onSort);
  const pager = createPager("Groups", (groupsPage) => state.update({ groupsPage }));
  const save = button("Save groups as CSV", () => saveGroups(state.chosen(), state.values));
  const picks = make("div", { class: "picks" }, make("label", { class: "pick", for: "by" }, "Group by ", select));
  const legend = make("div");
  find("panel-groups").append(heading("Scores by group"), picks, heaviest, note, legend, framed(chart, "groups"), drawn,
    table.element, pager.element,
    make("p", { class: "actions" }, save, latexButton(data, () => table.table, "groups")));

  const sampled = data.exact ? "" : ` Computed on a random sample of ${plural(data.counted, "query", "queries")}.`;
  // Labels are placed differently in narrow and wide charts.
  const relayout = calm(() => { if (chart.clientWidth) state.changed(["groups"]); }, CALM_MS);
  let width = 0;
  addEventListener("resize", () => { if (chart.clientWidth !== width) relayout(); });

  const draw = () => {
    width = chart.clientWidth;
    const chosen = state.chosen();
    const { by, groups, groupsPage } = state.values;
    select.value = by;
    const rows = groupsInOrder(chosen, state.values);
    const [from, to] = pager.show(groupsPage, rows.length, GROUPS_PAGE);
    const top = rows.slice(from, Math.min(to, from + GROUPS_DRAWN));
    const marks = `Dots are scores, lines are ${percent(data.level)} confidence intervals.`;
    note.textContent = `At ${pointText(state.values)}. ${marks}${GROUP_REMARKS[by] ?? ""}${sampled} Press a group to see its queries.`;
    heaviest.replaceChildren(...heaviestGroup(rows));
    drawn.textContent = rows.length > top.length
      ? `The chart shows the first ${top.length} groups of this page, of ${plural(rows.length, "group")} in total. Sort to see others.` : "";
    const columns = kept(chosen, `group columns ${by}`, () => groupColumns(chosen, (row) => openGroup(state, by, row.group)));
    table.show(rows.slice(from, to), groups, columns);
    const named = chosen.shown.map((model) => ({ ...data.models[model], title: markedLabel(data, data.models[model].name) }));
    legend.replaceChildren(...(named.length > 1 ? [symbolLegend(named)] : []));
    drawGroups(chosen, top, chart, `PROBE by group, ${pointText(state.values)}`);
  };
  return { panel: "groups", needs: ["by", "groups", "groupsPage", "theme", "alpha", "beta", ...CHOICE], draw };
}

// The queries of a group, in their table.
function openGroup(state, by, group) {
  state.update({ tab: "queries", [GROUP_KINDS[by].filter]: group, search: "", page: 1 });
  requestAnimationFrame(() => find("panel-queries").focus());
}

function heaviestGroup(rows) {
  if (rows.length < 2) return [];
  const most = rows.reduce((one, other) => (other.share > one.share ? other : one));
  return [make("strong", {}, label(most.words)), `: ${percent(most.share)} of the weight, ${percentOf(most, rows)} of the queries.`];
}

function percentOf(row, rows) {
  return percent(row.queries / rows.reduce((total, one) => total + one.queries, 0));
}

function groupsInOrder(data, { by, alpha, beta, groups }) {
  const valueOf = (row, key) => (/^model\d+$/.test(key) ? row.values?.[Number(key.slice(5))] : row[key]);
  return sortRows(breakdown(data, by, alpha, beta), groups, valueOf);
}

function groupColumns(data, open) {
  const value = (model) => (row) => {
    const best = data.shown.length > 1 && row.values.every((other) => !(other > row.values[model]));
    const range = make("small", { class: "range-text" }, rangeText(row.low[model], row.high[model], 3));
    const doubt = row.trusted[model] ? null : make("small", { class: "noise" }, "unreliable");
    return [make(best ? "strong" : "span", {}, fixed(row.values[model])), range, doubt];
  };
  const ofModel = (index) => ({
    key: `model${index}`, title: modelName(data, index), numeric: true, cell: value(index),
  });
  const name = (row) => make("button", {
    type: "button", class: "go", onclick: () => open(row), title: row.words === row.label ? null : row.label,
    "aria-label": `${row.words}: show its queries`,
  }, label(row.words));
  return [
    { key: "label", title: "Group", header: true, cell: name },
    { key: "queries", title: "Queries", numeric: true, cell: (row) => whole(row.queries) },
    { key: "share", title: "Weight", numeric: true, cell: (row) => percent(row.share) },
    ...data.shown.map(ofModel),
  ];
}

function saveGroups(data, values) {
  const names = data.shown.map((model) => data.models[model].name);
  const header = ["group", "queries", "weight", ...names.flatMap((name) => [name, `${name} low`, `${name} high`]), "meaning"];
  const rows = groupsInOrder(data, values).map((row) => {
    const numbers = data.shown.flatMap((model) => [row.values[model], row.low[model], row.high[model]]);
    return [row.label, row.queries, row.share, ...numbers, row.words];
  });
  saveCsv(`scores_by_${values.by}.csv`, header, rows);
}

// Dot chart of scores with intervals, one row per group.

const NARROW = 560;

function drawGroups(data, rows, chart, title) {
  const models = data.shown.length;
  const narrow = chart.clientWidth < NARROW;
  const gap = Math.min(0.13, (narrow ? 0.6 : 0.8) / models);
  const shares = rows.map((row) => `${percent(row.share)} of the weight`);
  const names = rows.map((row, i) => (narrow ? plotText(row.words) : `${plotText(row.words)}<br>${shares[i]}`));
  // On a narrow screen the labels are above the dots.
  const above = names.map((text, i) => ({
    text, y: 0.46 - i, x: 0, xref: "paper", xanchor: "left", showarrow: false, font: { size: 12 },
  }));
  const height = 70 + rows.length * Math.max(narrow ? 60 : 44, 12 * Math.min(models, 12));
  chart.style.height = `${height}px`;
  drawChart(chart, data.shown.map((model, i) => dots(data, model, rows, (i - (models - 1) / 2) * gap)), {
    height, // else Plotly keeps the first height
    margin: { l: 16, r: 16, t: 8, b: 44 },
    xaxis: axis("score", { nticks: narrow ? 5 : 10, zeroline: false }),
    yaxis: axis("", {
      tickvals: names.map((_, i) => -i), ticktext: names, showticklabels: !narrow, zeroline: false,
      range: [0.4 - names.length, 0.6],
    }),
    annotations: narrow ? above : [],
  }, title);
}

function dots(data, index, rows, shift) {
  const color = modelColour(data.models[index]);
  const name = plotText(data.models[index].name);
  const text = rows.map((row) => [
    name,
    `${plotText(row.words)}: ${fixed(row.values[index])}`,
    rangeText(row.low[index], row.high[index]),
  ].join("<br>"));
  return {
    type: "scatter", mode: "markers", hoverinfo: "text", text, name,
    x: rows.map((row) => row.values[index]),
    y: rows.map((_, i) => -i - shift),
    marker: { size: 9, color, symbol: symbolOf(data.models[index])[0] },
    error_x: {
      type: "data", symmetric: false, thickness: 1.5, width: 0, color,
      array: rows.map((row) => row.high[index] - row.values[index]),
      arrayminus: rows.map((row) => row.values[index] - row.low[index]),
    },
  };
}
