// The data of the page, read-only after opening.
//
// Rows are queries: all of them, or a sample where the ranks were compressed into cells (data.exact is false then).
// The first `counted` rows are all queries or a random sample of them; later rows are only shown in the table.

const ARRAY_TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f8: Float64Array };
const ALIGNMENT = 8;

/** Parses the embedded data: base64 of gzip of a header and typed arrays. */
export async function openData(base64text) {
  const content = await unzipped(bytesOf(base64text));
  const start = ALIGNMENT + new DataView(content).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(content, ALIGNMENT, start - ALIGNMENT)));
  const arrays = {};
  for (const [name, [type, offset, length, stepped]] of Object.entries(header.arrays)) {
    arrays[name] = new ARRAY_TYPES[type](content, start + offset, length);
    if (stepped) accumulate(arrays[name]);
  }
  const data = { ...header, arrays };
  return data.runs ? openRanks(data) : data;
}

/** Adds what is derived from ranks; an open-world page has none. */
function openRanks(data) {
  const { arrays } = data;
  data.entities ??= Array.from(arrays.entities, String);
  data.relations ??= Array.from(arrays.relations, String);
  data.rows = arrays.triple.length;
  data.counted ??= data.rows;
  data.clusters = arrays.head.length;
  data.kept = new Map(); // cache of computed values
  data.runs = data.runs.map((run) => openRun(data, run));
  data.runsOf = data.models.map((_, model) => data.runs.filter((run) => run.model === model));
  return data;
}

function bytesOf(base64text) {
  const text = atob(base64text.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function unzipped(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

function accumulate(array) {
  for (let i = 1; i < array.length; i += 1) array[i] += array[i - 1];
}

/** The result of `make`, cached by key. */
function kept(data, key, make) {
  if (!data.kept.has(key)) data.kept.set(key, make());
  return data.kept.get(key);
}

/** A run: its rows and, if ranks were compressed, its cells in the same format. */
function openRun(data, run) {
  const rows = openRows(data, run);
  return { model: run.model, rows, whole: run.cells === undefined ? rows : openCells(data, run.cells) };
}

/** For each row the codes of its rank, candidate count and popularity in tables of distinct values. */
function openRows(data, run) {
  const { arrays } = data;
  const { epsilon } = data.models[run.model];
  const weighed = `rows ${run.popularity} ${run.candidates} ${epsilon}`;
  return {
    length: data.counted,
    rank: arrays[`rank${run.rank}`],
    size: arrays[`candidates${run.candidates}`],
    popularity: epsilon && arrays[`popularity${run.popularity}`],
    count: null,
    powers: kept(data, "powers of rows", () => powersOf(arrays.ranks, arrays.candidates)),
    rarity: epsilon && kept(data, `rarity ${epsilon}`, () => rarityOf(popularityLogs(arrays, epsilon))),
    // Runs with the same popularity and candidates share their weights.
    weight: kept(data, weighed, () => ({ beta: NaN, values: new Float64Array(data.counted) })),
    lost: { alpha: NaN, values: null },
    mean: { alpha: NaN, beta: NaN, loss: NaN },
  };
}

/** For each cell its rank, its stratum (candidate count and popularity) and its number of queries. */
function openCells(data, { cells, strata }) {
  const { arrays } = data;
  const stratum = arrays[`cellStratum${cells}`];
  return {
    length: stratum.length,
    rank: arrays[`cellRank${cells}`],
    size: stratum,
    popularity: data.hasPopularity ? stratum : null,
    count: arrays[`cellCount${cells}`],
    powers: kept(data, `powers of strata ${strata}`, () => powersOf(arrays.cellRanks, arrays[`stratumSize${strata}`])),
    rarity: kept(data, `rarity of strata ${strata}`, () => rarityOf(arrays[`stratumLog${strata}`])),
    weight: { beta: NaN, values: new Float64Array(stratum.length) },
    lost: { alpha: NaN, values: null },
    mean: { alpha: NaN, beta: NaN, loss: NaN },
  };
}

function powersOf(ranks, sizes) {
  const logSize = Float64Array.from(sizes, Math.log);
  return {
    alpha: NaN,
    logRank: Float64Array.from(ranks, Math.log),
    logSize,
    gain: new Float64Array(ranks.length),
    scale: new Float64Array(sizes.length),
    most: extremes(logSize)[1],
  };
}

/** The log of (epsilon_e + delta(e)) (epsilon_r + delta(r|e)) for each distinct pair of popularities. */
function popularityLogs({ entityPopularity, relationPopularity }, [ofEntity, ofRelation]) {
  return entityPopularity.map((own, i) => Math.log(own + ofEntity) + Math.log(relationPopularity[i] + ofRelation));
}

function rarityOf(logs) {
  const [least, most] = extremes(logs);
  return { beta: NaN, logs, least, most, weights: new Float64Array(logs.length) };
}

function extremes(numbers) {
  let [least, most] = [Infinity, -Infinity];
  for (let i = 0; i < numbers.length; i += 1) {
    if (numbers[i] < least) least = numbers[i];
    if (numbers[i] > most) most = numbers[i];
  }
  return [least, most];
}
