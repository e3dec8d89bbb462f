// Scores of groups of queries by popularity, relation or side, with the weights of all queries.

const SIDE_WORDS = ["head predicted", "tail predicted"];

// For each kind of group its labels as in `kgprobe eval --by`, its names in words, and the group of each query.
const GROUP_CODES = {
  popularity: (data) => (data.hasPopularity
    ? { labels: data.bands, words: data.bandWords, codes: lookedUp(data.arrays.band, data.runs[0].rows.popularity, data.counted) }
    : { labels: [], words: [], codes: [] }),
  relation: (data) => ({
    labels: data.relations,
    words: data.relations,
    codes: lookedUp(data.arrays.relation, data.arrays.triple, data.counted),
  }),
  side: (data) => ({ labels: ["head", "tail"], words: SIDE_WORDS, codes: data.arrays.tailSide.subarray(0, data.counted) }),
};

function lookedUp(table, which, length) {
  const found = new Int32Array(length);
  for (let q = 0; q < length; q += 1) found[q] = table[which[q]];
  return found;
}

/** The queries sorted by group and cluster, and the start of each group. */
function grouped(data, by) {
  return kept(data, `groups ${by}`, () => {
    const { labels, words, codes } = GROUP_CODES[by](data);
    const rows = Int32Array.from({ length: codes.length }, (_, q) => q);
    const byCluster = countingSort(rows, data.arrays.triple, data.clusters).order;
    return { labels, words, ...countingSort(byCluster, codes, labels.length) };
  });
}

/** Rows in a stable counting sort by a small integer, and the start of each integer. */
function countingSort(rows, codes, size) {
  const starts = new Int32Array(size + 1);
  rows.forEach((q) => { starts[codes[q] + 1] += 1; });
  for (let i = 1; i <= size; i += 1) starts[i] += starts[i - 1];
  const next = starts.slice();
  const order = new Int32Array(rows.length);
  rows.forEach((q) => { order[next[codes[q]]++] = q; });
  return { order, starts };
}

/**
 * For each group: its code, label and name in words, the number of queries, their share of the weight, and the score of
 * each shown model, by its index, with its interval.
 * Relations are sorted by their number of queries, the largest first.
 */
export function breakdown(data, by, alpha, beta) {
  const { labels, words, order, starts } = grouped(data, by);
  const found = labels.map((label, group) => {
    const queries = order.subarray(starts[group], starts[group + 1]);
    const models = [];
    data.shown.forEach((model) => { models[model] = groupScore(data, data.runsOf[model], queries, alpha, beta); });
    const shown = data.shown.map((model) => models[model]);
    return {
      group,
      label,
      words: words[group],
      queries: Math.round(Math.max(...shown.map((own) => own.queries)) * (data.queries / data.counted)),
      share: average(shown.map((own) => own.share)),
      values: models.map((own) => own.value),
      low: models.map((own) => own.low),
      high: models.map((own) => own.high),
      trusted: models.map((own) => own.trusted),
    };
  }).filter((group) => group.queries > 0);
  return by === "relation" ? found.sort((one, other) => other.queries - one.queries) : found;
}

const EMPTY_GROUP = { queries: 0, share: 0, value: null, low: null, high: null, trusted: false };

/** The score of a model on some queries, which are sorted by cluster. */
function groupScore(data, runs, queries, alpha, beta) {
  const scored = runs.map(({ rows }) => sumsOver(losses(rows, alpha), weights(rows, beta), queries))
    .filter((run) => run.queries > 0);
  if (scored.length === 0) return EMPTY_GROUP;
  const { value, seeds } = overRuns(scored.map((run) => run.value));
  const effective = average(scored.map((run) => run.effective));
  const { found, squares } = groupPulls(scored, queries, data.arrays.triple);
  const { low, high, doubt } = intervalOf(data, { value, seeds, effective }, weighed(found, squares, value));
  return {
    queries: Math.max(...scored.map((run) => run.queries)),
    share: average(scored.map((run) => run.share)),
    value,
    low,
    high,
    trusted: doubt === null,
  };
}

function sumsOver(lost, { values, total }, queries) {
  let [count, sum, squares, loss] = [0, 0, 0, 0];
  for (let i = 0; i < queries.length; i += 1) {
    const w = values[queries[i]];
    if (w === 0) continue;
    count += 1;
    sum += w;
    squares += w * w;
    loss += w * lost[queries[i]];
  }
  const effective = (sum * sum) / squares;
  return { queries: count, value: 1 - loss / sum, sum, share: sum / total, effective, lost, values };
}

/** Variance statistics over the clusters of a group, and for each run the sum of squared influences. */
function groupPulls(scored, queries, triple) {
  const found = evidence();
  const squares = scored.map(() => 0);
  const pulls = scored.map(() => 0);
  let share = 0;
  for (let i = 0; i < queries.length; i += 1) {
    const q = queries[i];
    scored.forEach(({ values, lost, sum, value }, run) => {
      const own = values[q] / sum;
      share += own / scored.length;
      pulls[run] += own * (1 - lost[q] - value);
    });
    if (i + 1 === queries.length || triple[queries[i + 1]] !== triple[q]) {
      addCluster(found, average(pulls), share);
      pulls.forEach((pull, run) => { squares[run] += pull * pull; });
      pulls.fill(0);
      share = 0;
    }
  }
  return { found, squares };
}
