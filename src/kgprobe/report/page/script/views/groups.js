// Scores by popularity, side or relation, drawn and as a table.

const GROUP_TITLES = { popularity: "Popularity of the answer", side: "Side asked for", relation: "Relation" };
const GROUP_REMARKS = {
  popularity: " Popularity in training: the answer's times that of the relation for it; the rarest come first.",
};
const GROUPS_PAGE = 25;
const GROUPS_DRAWN = 12;

function createGroups(data, state) {
  const usable = Object.entries(GROUP_TITLES).filter(([by]) => data.hasPopularity || by !== "popularity");
  const select = make("select", { id: "by" }, usable.map(([by, title]) => make("option", { value: by }, title)));
  select.addEventListener("change", () => state.update({ by: select.value, groups: "given", groupsPage: 1 }));
  const chart = createChart("Score by group; the table below has the numbers", 320);
  const note = make("p", { class: "remark" });
  const drawn = make("p", { class: "remark" });
  const onSort = (key) => state.update({ groups: nextOrder(state.values.groups, key, key !== "label"), groupsPage: 1 });
  const table = createTable("Scores by group at the current alpha and beta", groupColumns(data), onSort);
  const pager = createPager("Groups", (groupsPage) => state.update({ groupsPage }));
  const save = button("Save these groups as CSV", () => saveGroups(data, state.values));
  const picks = make("div", { class: "picks" }, make("label", { class: "pick", for: "by" }, "Split by ", select));
  const legend = data.models.length > 1 ? [symbolLegend(data.models.map(({ name }) => markedLabel(data, name)))] : [];
  find("panel-groups").append(heading("Where the scores come from"), picks, note, ...legend, chart, drawn,
    table.element, pager.element, make("p", { class: "actions" }, save));

  const sampled = data.exact ? "" : ` All from a random sample of ${plural(data.counted, "query", "queries")}.`;
  // Narrow and wide charts place their names differently.
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
    const marks = `Dots are scores, lines their ${percent(data.level)} intervals.`;
    note.textContent = `At ${pointText(state.values)}. ${marks}${GROUP_REMARKS[by] ?? ""}${sampled}`;
    drawn.textContent = rows.length > top.length
      ? `Drawn: the first ${top.length} of this page; ${plural(rows.length, "group")} in all. Sort to see others.` : "";
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
    const doubt = row.trusted[model] ? null : make("small", { class: "noise" }, "untrusted");
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
