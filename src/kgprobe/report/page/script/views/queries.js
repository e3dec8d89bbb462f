// Every query with its ranks: searched, sorted, turned page by page, saved.

const QUERIES_PAGE = 50;

function createQueries(data, state) {
  const search = make("input", {
    type: "search", id: "search", dir: "auto", placeholder: "entity or relation", autocomplete: "off",
    spellcheck: "false",
  });
  search.addEventListener("input", () => state.update({ search: search.value, page: 1 }));
  const found = make("p", { class: "remark", role: "status" });
  const reasons = data.reasons.length ? createReasons(data, state) : null;
  const columns = [...queryColumns(data), ...(reasons ? [reasonsColumn(data, state, reasons)] : [])];
  const rowsFound = createFinder(data);
  const onSort = (key) => {
    const numeric = columns.find((column) => column.key === key).falls ?? false;
    state.update({ sort: nextOrder(state.values.sort, key, numeric), page: 1 });
  };
  const table = createTable("Queries and the rank of their answer by model", columns, onSort);
  const pager = createPager("Queries", (page) => state.update({ page }));
  const save = button("Save these queries as CSV", () => saveQueries(data, rowsFound(state.values)));
  const picks = make("div", { class: "picks" }, make("label", { class: "pick", for: "search" }, "Search ", search));
  const actions = make("p", { class: "actions" }, save);
  const sample = "Listed: a random sample, and the queries on which the models differ most.";
  const listedHere = data.exact ? [] : [make("p", { class: "remark" }, sample)];
  const explained = reasons ? [reasons.element] : [];
  find("panel-queries").append(heading(data.exact ? "Every query" : "Queries"), ...listedHere, picks, found, ...explained, table.element, pager.element, actions);

  const left = queryCount(data) < data.queries ? ` kept out of ${whole(data.queries)}` : "";
  const draw = () => {
    const { page, sort } = state.values;
    if (search.value !== state.values.search) search.value = state.values.search;
    const rows = rowsFound(state.values);
    const [from, to] = pager.show(page, rows.length, QUERIES_PAGE);
    found.textContent = `${whole(rows.length)} of ${plural(queryCount(data), "query", "queries")}${left}.`;
    table.show(Array.from(rows.slice(from, to), (row) => query(data, row)), sort);
  };
  return [{ panel: "queries", needs: ["search", "sort", "page"], draw }, ...(reasons ? [reasons.view] : [])];
}

// The rows that are searched for, in the order that is asked for.
function createFinder(data) {
  let ratios = null;
  return ({ search, sort }) => {
    const [column, descending] = [sort.replace(/^-/, ""), sort.startsWith("-")];
    if (column !== "disagreement") return sortQueries(data, column, descending, search);
    ratios ??= Float64Array.from({ length: queryCount(data) }, (_, row) => disagreement(query(data, row)));
    const sign = descending ? -1 : 1;
    const compare = (one, other) => sign * (ratios[one] - ratios[other]) || one - other;
    return sortQueries(data, "row", false, search).sort(compare);
  };
}

function queryColumns(data) {
  // The asked side is marked in words too: "answer" stands beside it.
  const entity = (side) => (row) => (row.side === side
    ? [make("strong", {}, label(row[side])), " ", make("small", { class: "answer" }, "answer")]
    : label(row[side]));
  const weighed = { key: "popularity", title: "Popularity", numeric: true, falls: true, cell: popularityCell };
  const times = (row) => `${RANK.format(disagreement(row))} times`;
  const ratio = { key: "disagreement", title: "Disagreement", numeric: true, falls: true, cell: times };
  const ofModel = (_, index) => ({
    key: `model${index}`, title: modelName(data, index), numeric: true, cell: rankCell(index),
  });
  return [
    { key: "head", title: "Head", header: true, cell: entity("head") },
    { key: "relation", title: "Relation", cell: (row) => label(row.relation) },
    { key: "tail", title: "Tail", cell: entity("tail") },
    ...data.models.map(ofModel),
    ...(data.models.length > 1 ? [ratio] : []),
    ...(data.hasPopularity ? [weighed] : []),
    { key: "candidates", title: "Candidates", numeric: true, falls: true, cell: candidatesCell(data) },
  ];
}

// One number where all models ranked among as many candidates, else one for each model.
function candidatesCell(data) {
  return (row) => (sameCandidates(data) ? whole(row.candidates) : row.candidatesByModel.map(whole).join(" / "));
}

function sameCandidates({ runsOf }) {
  return runsOf.every(([{ rows }]) => rows.size === runsOf[0][0].rows.size);
}

// The product of two factors, the entity's and the relation's for that entity: shown when pointed at, and saved.
function popularityCell({ popularity, entityPopularity, relationPopularity }) {
  const factors = `${significant(entityPopularity)} × ${significant(relationPopularity)}`;
  return make("span", { title: factors }, significant(popularity));
}

// Several seeds give an array; the cell shows their mean and, when pointed at, each of them.
function rankCell(index) {
  return ({ ranks }) => make("span", {
    title: Array.isArray(ranks[index]) ? `by seed: ${ranks[index].map((rank) => RANK.format(rank)).join(", ")}` : null,
  }, RANK.format(overSeeds(ranks[index])));
}

function overSeeds(rank) {
  return Array.isArray(rank) ? rank.reduce((sum, one) => sum + one, 0) / rank.length : rank;
}

// How many times as far down the worst model puts the answer as the best one.
function disagreement({ ranks }) {
  const means = ranks.map(overSeeds);
  return Math.max(...means) / Math.min(...means);
}

function saveQueries(data, rows) {
  const same = sameCandidates(data);
  const candidates = same ? ["candidates"] : data.models.map(({ name }) => `candidates ${name}`);
  const header = ["head", "relation", "tail", "side", "entity_popularity", "relation_popularity", ...candidates,
    ...data.models.map(({ name }) => `rank ${name}`)];
  saveCsv("queries.csv", header, Array.from(rows, (index) => {
    const row = query(data, index);
    return [row.head, row.relation, row.tail, row.side, row.entityPopularity, row.relationPopularity,
      ...(same ? [row.candidates] : row.candidatesByModel), ...row.ranks.map(overSeeds)];
  }));
}
