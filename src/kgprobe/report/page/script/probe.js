// PROBE as `kgprobe eval` computes it, from rows or from compressed cells.
//
// The score of a query is f*(r) = 1 - loss, with loss = expm1(-alpha ln r) / expm1(-alpha ln E). The powers of all
// distinct ranks and candidate counts are computed once; a query then costs two look-ups and a product.

const SO_SMALL_THAT_LINEAR = 1e-18;
const MOST_EXPONENT = 700; // larger exponents overflow a double

/** The loss of each query, 1 - score; 0 for a query with a single candidate. */
function losses(block, alpha) {
  const { lost, powers, rank, size, length } = block;
  if (lost.alpha === alpha) return lost.values;
  lost.alpha = alpha;
  lost.values ??= new Float64Array(length);
  const { values } = lost;
  if (Math.abs(alpha) * powers.most > MOST_EXPONENT) {
    for (let q = 0; q < length; q += 1) values[q] = steepLoss(alpha, powers.logRank[rank[q]], powers.logSize[size[q]]);
    return values;
  }
  const { gain, scale } = raised(powers, alpha);
  for (let q = 0; q < length; q += 1) values[q] = gain[rank[q]] * scale[size[q]];
  return values;
}

/** The loss where powers overflow, with the largest power factored out. */
function steepLoss(alpha, logRank, logSize) {
  if (logSize === 0) return 0;
  const steep = Math.abs(alpha);
  const ratio = Math.expm1(-steep * logRank) / Math.expm1(-steep * logSize);
  return alpha > 0 ? ratio : Math.exp(steep * (logRank - logSize)) * ratio;
}

/** Tables by rank and by candidate count whose product is the loss. */
function raised(powers, alpha) {
  const { logRank, logSize, gain, scale } = powers;
  if (powers.alpha === alpha) return powers;
  powers.alpha = alpha;
  const power = Math.abs(alpha) < SO_SMALL_THAT_LINEAR ? (log) => log : (log) => Math.expm1(-alpha * log);
  for (let i = 0; i < gain.length; i += 1) gain[i] = power(logRank[i]);
  for (let i = 0; i < scale.length; i += 1) scale[i] = logSize[i] > 0 ? 1 / power(logSize[i]) : 0;
  return powers;
}

/** The weight of each query (of all queries of a cell), 0 for a single candidate; and their sums. */
function weights(block, beta) {
  const { weight, powers, size, popularity, count, length } = block;
  if (weight.beta === beta) return weight;
  weight.beta = beta;
  const rare = popularity && beta !== 0 ? rareWeights(block.rarity, beta) : null;
  const { values } = weight;
  let [total, squares] = [0, 0];
  for (let q = 0; q < length; q += 1) {
    const own = powers.logSize[size[q]] > 0 ? (rare ? rare[popularity[q]] : 1) : 0;
    const together = count ? own * count[q] : own;
    values[q] = together;
    total += together;
    squares += own * together;
  }
  return Object.assign(weight, { total, effective: squares > 0 ? (total * total) / squares : 0 });
}

/** (epsilon_e + delta(e))^-beta (epsilon_r + delta(r|e))^-beta, divided by the largest so that none overflows. */
function rareWeights(rarity, beta) {
  if (rarity.beta === beta) return rarity.weights;
  rarity.beta = beta;
  const heaviest = beta > 0 ? rarity.least : rarity.most;
  for (let i = 0; i < rarity.logs.length; i += 1) rarity.weights[i] = Math.exp(-beta * (rarity.logs[i] - heaviest));
  return rarity.weights;
}

/** The mean loss of a block; the score is 1 - loss. */
function meanLoss(block, alpha, beta) {
  const { mean, length } = block;
  if (mean.alpha === alpha && mean.beta === beta) return mean.loss;
  const lost = losses(block, alpha);
  const { values, total } = weights(block, beta);
  let sum = 0;
  for (let q = 0; q < length; q += 1) sum += values[q] * lost[q];
  return Object.assign(mean, { alpha, beta, loss: sum / total }).loss;
}

/** The score of a model: the mean over its runs, their standard deviation, and the variance of the mean. */
function modelScore(data, model, alpha, beta) {
  const values = data.runsOf[model].map((run) => 1 - meanLoss(run.whole, alpha, beta));
  const effective = average(data.runsOf[model].map((run) => weights(run.whole, beta).effective));
  return { ...overRuns(values), effective };
}

/** Whether any query has more than one candidate. */
function hasScores(data) {
  return data.shown.some((model) => modelScore(data, model, 1, 0).effective > 0);
}

function overRuns(values) {
  const value = average(values);
  if (values.length === 1) return { value, std: null, seeds: { variance: 0, freedom: Infinity } };
  const variance = values.reduce((sum, own) => sum + (own - value) ** 2, 0) / (values.length - 1);
  return { value, std: Math.sqrt(variance), seeds: { variance: variance / values.length, freedom: values.length - 1 } };
}

function average(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

/** Metrics of the ranks alone, without weights; they count queries with a single candidate too. */
const RANK_METRICS = [["MRR", (rank) => 1 / rank], ["Hits@10", (rank) => Number(rank <= 10)]];

/** MRR and Hits@10 of a model, the mean over its runs; null without queries. */
export function rankMetrics(data, model) {
  return kept(data, `rank metrics ${model}`, () => {
    const runs = data.runsOf[model];
    return RANK_METRICS.map(([, value], i) => {
      const byRun = runs.map((run) => run.metrics?.[i] ?? meanOverRanks(data, run.rows, value));
      return data.counted ? average(byRun) : null;
    });
  });
}

function meanOverRanks({ arrays }, { rank, length }, value) {
  const values = Float64Array.from(arrays.ranks, value);
  let sum = 0;
  for (let q = 0; q < length; q += 1) sum += values[rank[q]];
  return sum / length;
}
