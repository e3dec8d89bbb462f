// The queries: the content of a row, search and sorting.

const MOST_COLLATED = 100000; // more names than this are sorted by code point, which is much faster

/** The number of queries in the table. */
export function queryCount(data) {
  return data.rows;
}

/** One query; the rank of each model is a number, or an array with one rank per seed. */
export function query(data, row) {
  const { arrays } = data;
  const triple = arrays.triple[row];
  const [head, tail] = [data.entities[arrays.head[triple]], data.entities[arrays.tail[triple]]];
  const predictsTail = arrays.tailSide[row] === 1;
  const ranks = data.runsOf.map((runs) => runs.map(({ rows }) => arrays.ranks[rows.rank[row]]));
  return {
    row: rowNumber(data, row),
    head,
    relation: data.relations[arrays.relation[triple]],
    tail,
    side: predictsTail ? "tail" : "head",
    target: predictsTail ? tail : head,
    ...popularityOf(data, row),
    candidates: arrays.candidates[data.runs[0].rows.size[row]],
    candidatesByModel: data.runsOf.map(([{ rows }]) => arrays.candidates[rows.size[row]]),
    ranks: ranks.map((own) => (own.length === 1 ? own[0] : own)),
  };
}

/** The row of a query in the first file. */
function rowNumber(data, row) {
  return data.arrays.row === undefined ? row : data.arrays.row[row];
}

/** delta(e), delta(r|e) and their product, which defines the popularity bands. */
function popularityOf(data, row) {
  if (!data.hasPopularity) return { popularity: null, entityPopularity: null, relationPopularity: null };
  const pair = data.runs[0].rows.popularity[row];
  const entityPopularity = data.arrays.entityPopularity[pair];
  const relationPopularity = data.arrays.relationPopularity[pair];
  return { popularity: entityPopularity * relationPopularity, entityPopularity, relationPopularity };
}

/** The explanations of the query at this row of the first file, one per rule-based model. */
export function reasonsAt(data, place) {
  const found = kept(data, "reasons", () => {
    const byPlace = new Map();
    for (const { model, seed, queries } of data.reasons) {
      for (const { row, ...entry } of queries) {
        if (!byPlace.has(row)) byPlace.set(row, []);
        byPlace.get(row).push({ model, seed, ...entry });
      }
    }
    return byPlace;
  });
  return found.get(place) ?? [];
}

/** The sort keys besides models: a number for each row. */
const SORT_KEYS = {
  row: rowNumber,
  head: (data, row) => labelPlaces(data, "entities")[data.arrays.head[data.arrays.triple[row]]],
  relation: (data, row) => labelPlaces(data, "relations")[data.arrays.relation[data.arrays.triple[row]]],
  tail: (data, row) => labelPlaces(data, "entities")[data.arrays.tail[data.arrays.triple[row]]],
  side: (data, row) => data.arrays.tailSide[row],
  popularity: (data, row) => popularityOf(data, row).popularity ?? 0,
  candidates: (data, row) => data.arrays.candidates[data.runs[0].rows.size[row]],
  reasons: (data, row) => reasonsAt(data, rowNumber(data, row)).length,
};

function rankByModel(data, model, row) {
  let sum = 0;
  for (const { rows } of data.runsOf[model]) sum += data.arrays.ranks[rows.rank[row]];
  return sum / data.runsOf[model].length;
}

/** The position of each name in sorted order; numbers inside names are compared as numbers. */
function labelPlaces(data, kind) {
  return kept(data.names, `places ${kind}`, () => {
    const names = data[kind];
    const collator = new Intl.Collator("en", { numeric: true });
    const plain = (one, other) => (one < other ? -1 : Number(one > other));
    const compare = names.length > MOST_COLLATED ? plain : collator.compare;
    const order = Int32Array.from(names, (_, i) => i).sort((one, other) => compare(names[one], names[other]));
    const places = new Int32Array(names.length);
    order.forEach((name, i) => { places[name] = i; });
    return places;
  });
}

/**
 * The rows that contain every word of a text (in head, relation or tail, ignoring case), sorted by a
 * column: row, head, relation, tail, side, popularity, candidates, or "model1" for the rank by the second model.
 */
export function sortQueries(data, column, descending, filterText = "") {
  const keys = sortKeys(data, column);
  const sign = descending ? -1 : 1;
  return matching(data, filterText).sort((one, other) => sign * (keys[one] - keys[other]));
}

function sortKeys(data, column) {
  return kept(data, `keys ${column}`, () => {
    const model = /^model(\d+)$/.exec(column)?.[1];
    const key = model === undefined ? SORT_KEYS[column] : (_, row) => rankByModel(data, Number(model), row);
    return Float64Array.from({ length: data.rows }, (_, row) => key(data, row));
  });
}

function matching(data, filterText) {
  const { triple, head, relation, tail } = data.arrays;
  const words = lowered(filterText).split(/\s+/u).filter((word) => word !== "");
  const hits = words.map((word) => [having(data, "entities", word), having(data, "relations", word)]);
  const rows = new Int32Array(data.rows);
  let count = 0;
  for (let row = 0; row < data.rows; row += 1) {
    const t = triple[row];
    const hit = ([entity, related]) => entity[head[t]] || entity[tail[t]] || related[relation[t]];
    if (hits.every(hit)) rows[count++] = row;
  }
  return rows.subarray(0, count);
}

function having(data, kind, word) {
  const labels = data.labels?.[kind];
  const both = (name, i) => lowered(labels ? `${name} ${labels[i]}` : name);
  const names = kept(data.names, `lowered ${kind}`, () => data[kind].map(both));
  return Uint8Array.from(names, (name) => Number(name.includes(word)));
}

function lowered(text) {
  return text.normalize("NFC").toLowerCase();
}
