// Table of all queries with search, sorting, pages and CSV, and the rules behind a rank.

const QUERIES_PAGE = 50;

function createQueries(data, state) {
  const search = make("input", {
    type: "search", id: "search", dir: "auto", placeholder: "entity or relation", autocomplete: "off",
    spellcheck: "false",
  });
  search.addEventListener("input", () => state.update({ search: search.value, page: 1 }));
  const found = make("p", { class: "remark", role: "status" });
  const reasons = data.reasons.length ? createReasons(data, state) : null;
  const columnsOf = (chosen) => kept(chosen, "query columns", () =>
    [...queryColumns(chosen), ...(reasons ? [reasonsColumn(data, state, reasons)] : [])]);
  const onSort = (key) => {
    const numeric = columnsOf(state.chosen()).find((column) => column.key === key).falls ?? false;
    state.update({ sort: nextOrder(state.values.sort, key, numeric), page: 1 });
  };
  const table = createTable("Queries, with the rank of the target by model", [], onSort);
  const pager = createPager("Queries", (page) => state.update({ page }));
  const save = button("Save queries as CSV", () => saveQueries(state.chosen(), rowsFound(state.chosen(), state.values)));
  const picks = make("div", { class: "picks" }, make("label", { class: "pick", for: "search" }, "Search ", search));
  const actions = make("p", { class: "actions" }, save, latexButton(data, () => table.table, "shown queries"));
  const sample = "A random sample, and the queries on which the models differ most.";
  const listedHere = data.exact ? [] : [make("p", { class: "remark" }, sample)];
  const explained = reasons ? [reasons.element] : [];
  find("panel-queries").append(heading(data.exact ? "All queries" : "Queries"), ...listedHere, picks, found, ...explained, table.element, pager.element, actions);

  const left = queryCount(data) < data.queries ? ` kept out of ${whole(data.queries)}` : "";
  const draw = () => {
    const { page, sort } = state.values;
    const chosen = state.chosen();
    if (search.value !== state.values.search) search.value = state.values.search;
    const rows = rowsFound(chosen, state.values);
    const [from, to] = pager.show(page, rows.length, QUERIES_PAGE);
    const words = listed(choiceWords(data, state.values)).flat();
    found.replaceChildren(`${whole(rows.length)} of ${plural(queryCount(data), "query", "queries")}${left}`,
      ...(words.length ? [": ", ...words] : []), ".");
    table.show(Array.from(rows.slice(from, to), (row) => query(chosen, row)), sort, columnsOf(chosen));
  };
  return [{ panel: "queries", needs: ["search", "sort", "page", ...CHOICE], draw }, ...(reasons ? [reasons.view] : [])];
}

// The chosen rows that match the search, in the chosen order.
function rowsFound(data, { search, sort }) {
  const [column, descending] = [sort.replace(/^-/, ""), sort.startsWith("-")];
  if (column !== "disagreement") return sortQueries(data, column, descending, search);
  const ratios = kept(data, "disagreement", () => (
    Float64Array.from({ length: queryCount(data) }, (_, row) => disagreement(data, query(data, row)))));
  const sign = descending ? -1 : 1;
  const compare = (one, other) => sign * (ratios[one] - ratios[other]) || one - other;
  return sortQueries(data, "row", false, search).sort(compare);
}

function queryColumns(data) {
  // The target is marked in words as well: "target" beside it.
  const entity = (side) => (row) => (row.side === side
    ? [make("strong", {}, label(row[side])), " ", make("small", { class: "answer" }, "target")]
    : label(row[side]));
  const weighed = { key: "popularity", title: "Popularity", numeric: true, falls: true, cell: popularityCell };
  const times = (row) => `${rankText(disagreement(data, row))} times`;
  const ratio = { key: "disagreement", title: "Disagreement", numeric: true, falls: true, cell: times };
  const ofModel = (index) => ({
    key: `model${index}`, title: modelName(data, index), numeric: true, cell: rankCell(index),
  });
  return [
    { key: "head", title: "Head", header: true, cell: entity("head") },
    { key: "relation", title: "Relation", cell: (row) => label(row.relation) },
    { key: "tail", title: "Tail", cell: entity("tail") },
    ...data.shown.map(ofModel),
    ...(data.shown.length > 1 ? [ratio] : []),
    ...(data.hasPopularity ? [weighed] : []),
    { key: "candidates", title: "Candidates", numeric: true, falls: true, cell: candidatesCell(data) },
  ];
}

// One number if the shown models have the same number of candidates, else one per model.
function candidatesCell({ shown }) {
  return ({ candidatesByModel }) => {
    const counts = shown.map((model) => candidatesByModel[model]);
    return (new Set(counts).size === 1 ? [counts[0]] : counts).map(whole).join(" / ");
  };
}

function sameCandidates({ runsOf }) {
  return runsOf.every(([{ rows }]) => rows.size === runsOf[0][0].rows.size);
}

// Popularity delta(e) x delta(r|e); the two factors are shown on hover and written to CSV.
function popularityCell({ popularity, entityPopularity, relationPopularity }) {
  const factors = `${significant(entityPopularity)} × ${significant(relationPopularity)}`;
  return make("span", { title: factors }, significant(popularity));
}

// For several seeds the cell shows the mean rank, and on hover the rank of each seed.
function rankCell(index) {
  return ({ ranks }) => make("span", {
    title: Array.isArray(ranks[index]) ? `by seed: ${ranks[index].map((rank) => RANK.format(rank)).join(", ")}` : null,
  }, rankText(overSeeds(ranks[index])));
}

function rankText(rank) {
  return (rank < 1000 ? RANK : WHOLE).format(rank);
}

function overSeeds(rank) {
  return Array.isArray(rank) ? rank.reduce((sum, one) => sum + one, 0) / rank.length : rank;
}

// The largest rank divided by the smallest, over the shown models.
function disagreement({ shown }, { ranks }) {
  const means = shown.map((model) => overSeeds(ranks[model]));
  return Math.max(...means) / Math.min(...means);
}

function saveQueries(data, rows) {
  const same = sameCandidates(data);
  const names = data.shown.map((model) => data.models[model].name);
  const candidates = same ? ["candidates"] : names.map((name) => `candidates ${name}`);
  const header = ["head", "relation", "tail", "side", "entity_popularity", "relation_popularity", ...candidates,
    ...names.map((name) => `rank ${name}`)];
  saveCsv("queries.csv", header, Array.from(rows, (index) => {
    const row = query(data, index);
    return [row.head, row.relation, row.tail, row.side, row.entityPopularity, row.relationPopularity,
      ...(same ? [row.candidates] : data.shown.map((model) => row.candidatesByModel[model])),
      ...data.shown.map((model) => overSeeds(row.ranks[model]))];
  }));
}

// Explanations of rule-based models: the rules that predict the target, and those of the top candidate.

function createReasons(data, state) {
  const element = make("section", { class: "card why", "aria-label": "Why", hidden: true });
  const draw = () => {
    const { why } = state.values;
    const found = why ? reasonsAt(data, why - 1) : [];
    element.hidden = !found.length;
    if (!found.length) return;
    const title = make("h4", { tabindex: "-1" }, "Why? ", label(found[0].question));
    const close = button("Close", () => {
      state.update({ why: 0 });
      find(`why-${why}`)?.focus();
    });
    const how = "Gain: decrease of the score without the rule. Alone: score of one grounding without other rules.";
    element.replaceChildren(title, make("p", { class: "remark" }, how), ...found.flatMap((one) => modelReasons(data, one)), make("p", { class: "actions" }, close));
  };
  return { element, view: { panel: "queries", needs: ["why"], draw } };
}

// The column with a button for queries that have an explanation.
function reasonsColumn(data, state, reasons) {
  const cell = ({ row, target }) => {
    if (!reasonsAt(data, row).length) return "";
    const open = () => {
      state.update({ why: row + 1 });
      requestAnimationFrame(() => reasons.element.querySelector("h4")?.focus());
    };
    return button("Why?", open, { class: "go", id: `why-${row + 1}`, "aria-label": `Why does ${target} have its rank?` });
  };
  return { key: "reasons", title: "Rules", falls: true, cell };
}

function modelReasons(data, { model, seed, answer, best }) {
  const seeds = data.runsOf[model].length > 1 ? ` (seed ${seed})` : "";
  return [
    make("p", {}, modelName(data, model), seeds, " ranks ", answerText(answer)),
    ...answerReasons(answer),
    ...(best ? [make("p", {}, "Its top candidate is ", answerText(best)), ...answerReasons(best)] : []),
  ];
}

function answerText({ name, rank, ties, candidates }) {
  const tied = ties ? `, tied with ${plural(ties, "other")}` : "";
  return [make("strong", {}, label(name)), ` at rank ${RANK.format(rank)} of ${whole(candidates)}${tied}.`];
}

function answerReasons({ score, parts, rules, more }) {
  const sum = parts.map(([name, value]) => `${name} ${fixed(value, 2)}`).join(" + ");
  const others = more ? ` ${plural(more, "other rule predicts", "other rules predict")} it.` : "";
  const none = rules.length ? "" : " No rule predicts it.";
  return [
    make("p", { class: "remark" }, `Score ${fixed(score, 2)}${sum && ` = ${sum}`}.${none}${others}`),
    ...(rules.length ? [make("ul", { class: "reasons" }, rules.map(ruleItem))] : []),
  ];
}

function ruleItem({ rule, paths, gain, alone, path }) {
  const many = paths > 1 ? `one of ${whole(paths)} groundings` : "grounding";
  return make("li", {}, make("code", {}, label(rule)),
    make("span", { class: "remark" }, `gain ${signed(gain, 2)}, alone ${signed(alone, 2)}, ${many}: `, label(path)));
}
