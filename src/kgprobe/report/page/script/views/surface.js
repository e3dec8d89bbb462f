// Scores over the whole (alpha, beta) plane, computed in slices so that the sliders never wait.

const STEPS = { narrow: { alpha: 0.05, beta: 0.05 }, wide: { alpha: 0.25, beta: 0.2 } };
const SLICE_MS = 25;
const REST_MS = 300;

function gridAxis([low, high], step) {
  const count = Math.round((high - low) / step);
  // Rounded, so that a click lands on 0.3 and not on 0.30000000000000004.
  return Array.from({ length: count + 1 }, (_, i) => Number((low + i * step).toFixed(6)));
}

// Every eighth column first, then those between: the whole map is there at once and becomes finer.
function coarseToFine(count) {
  const columns = Array.from({ length: count }, (_, i) => i);
  const fineness = (i) => [8, 4, 2, 1].findIndex((stride) => i % stride === 0);
  return columns.sort((a, b) => fineness(a) - fineness(b) || a - b);
}

function pause(milliseconds = 0) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function createSurface(data, wide) {
  const range = wide ? "wide" : "narrow";
  const alphas = gridAxis(RANGES[range].alpha, STEPS[range].alpha);
  const betas = data.hasPopularity ? gridAxis(RANGES[range].beta, STEPS[range].beta) : [0];
  const columns = alphas.map(() => null); // by alpha: {scores: [model][beta], winner: [beta], beyond: [beta]}
  return { alphas, betas, columns, done: 0, points: 1 };
}

// Stops when no longer wanted; goes on where it stopped when called again.
async function fillSurface(data, plane, wanted, moved, show) {
  let slice = performance.now();
  for (const i of coarseToFine(plane.alphas.length).filter((column) => !plane.columns[column])) {
    const column = { scores: data.models.map(() => []), winner: [], beyond: [] };
    while (column.winner.length < plane.betas.length) {
      if (performance.now() - slice > SLICE_MS) {
        await pause();
        while (performance.now() - moved() < REST_MS) await pause(REST_MS);
        if (!wanted()) return;
        slice = performance.now();
      }
      extendColumn(data, plane, plane.alphas[i], column);
    }
    plane.columns[i] = column;
    plane.done += 1;
    show();
  }
}

// As many points as fit a slice at the pace of the last ones.
function extendColumn(data, plane, alpha, column) {
  const at = column.winner.length;
  const betas = plane.betas.slice(at, at + plane.points);
  const start = performance.now();
  const part = surface(data, [alpha], betas);
  plane.points = Math.max(1, Math.floor((SLICE_MS * betas.length) / (performance.now() - start + 0.1)));
  part.scores.forEach((scores, model) => column.scores[model].push(...scores[0]));
  column.winner.push(...part.winner[0]);
  column.beyond.push(...part.beyond[0]);
}

// The column at this alpha, or the nearest one that is already there.
function columnAt(plane, i) {
  const near = plane.alphas.map((_, distance) => plane.columns[i - distance] ?? plane.columns[i + distance]);
  return near.find((column) => column);
}

// The paper's RQ3: at each point the worst model has 0 and the best 1. A single model keeps its score.
function normalised(column, model, at) {
  const values = column.scores.map((scores) => scores[at]).filter(Number.isFinite);
  const value = column.scores[model][at];
  if (column.scores.length === 1) return value;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high > low ? (value - low) / (high - low) : NaN;
}
