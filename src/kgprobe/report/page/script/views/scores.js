// Scores of all models at the current alpha and beta, recomputed while a slider moves, and the sentence above them. On a
// narrow screen the rows are laid out as cards, and browsers drop the table semantics: the roles restore them.

const MEDALS = ["gold", "silver", "bronze"];

function createScores(data, state) {
  const several = data.models.length > 1;
  const seeded = data.models.some((model) => model.seeds > 1);
  const interval = `${percent(data.level)} confidence interval`;
  const titles = ["Place", "Model", "Score", interval, "Difference to best", "Effective queries", "Std over seeds"];
  const shown = [several, true, true, true, several, true, seeded];
  const kinds = ["", "", "number", "", "number", "number", "number"];
  const heads = titles.map((title, i) => make("th", { scope: "col", role: "columnheader", class: kinds[i] }, title));
  const body = make("tbody", { role: "rowgroup" });
  const table = make("table", { class: "scores", role: "table" },
    make("caption", { class: "unseen" }, "Scores of all models at the current alpha and beta, best first"),
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, heads.filter((_, i) => shown[i]))), body);
  find("scores").replaceChildren(table);
  if (several) find("noise-remark").textContent = noiseText(data);
  const rows = data.models.map((_, index) => scoreRow(data, index, shown, () => state.update({ tab: "audit" })));

  const speak = calm((text) => { find("spoken").textContent = text; }, 700);
  const draw = () => {
    const { alpha, beta } = state.values;
    performance.clearMeasures("step");
    const start = performance.now();
    const results = scores(data, alpha, beta);
    const against = several ? differences(data, alpha, beta) : [];
    performance.measure("step", { start });
    const scale = scoreScale(results);
    const order = [...results].sort(byPlace);
    for (const result of order) {
      rows[result.model].show(result, against.find((item) => item.model === result.model), scale);
    }
    const wanted = order.map((result) => rows[result.model].element);
    if (wanted.some((row, i) => body.children[i] !== row)) body.replaceChildren(...wanted);
    const sentence = verdict(data, state.values, order, against);
    find("verdict").replaceChildren(...sentence);
    speak(find("verdict").textContent);
    find("scores-remark").replaceChildren(...scoresRemark(data, order));
  };
  find("scores-csv").addEventListener("click", () => saveScores(data, state.values));
  return { needs: ["alpha", "beta"], live: true, draw };
}

// Models without a score are last.
function byPlace(one, other) {
  return (one.place ?? Infinity) - (other.place ?? Infinity) || one.model - other.model;
}

function noiseText(data) {
  return `Significant: outside the simultaneous ${percent(data.level)} confidence band over all models and the whole map; `
    + "kgprobe decide at a single point uses a less strict test.";
}

// One scale for all interval bars, so that they are comparable.
function scoreScale(results) {
  const ends = results.flatMap(({ value, low, high }) => [value, low, high]).filter(Number.isFinite);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const room = Math.max((most - least) * 0.04, 1e-6);
  const span = most - least + 2 * room;
  return (value) => (100 * (value - least + room)) / span;
}

// A link to the audit findings of a model, shown beside its score.
function auditFlag(data, index, openAudit) {
  const { name } = data.models[index];
  const counts = ["error", "warning"].map((severity) => [findingsOf(data, name, severity), severity]);
  const words = counts.filter(([count]) => count).map(([count, severity]) => plural(count, severity));
  return words.length ? button(`audit: ${words.join(", ")}`, openAudit, { class: "flag" }) : null;
}

function scoreRow(data, index, shown, openAudit) {
  const medal = make("span", { class: "place" });
  const value = make("data", { class: "score", "data-model": data.models[index].name });
  const range = make("span", { class: "range-text" });
  const bar = make("span", { class: "bar-interval", style: `--model:${modelColour(index)}` });
  const tick = make("span", { class: "bar-value", style: `--model:${modelColour(index)}` });
  const behind = make("span", { class: "behind" });
  const noise = make("span", { class: "noise" });
  const effective = make("span");
  const untrusted = make("span", { class: "noise" });
  const deviation = make("span");
  const cell = (title, kind, ...content) => make("td", { role: "cell", class: kind, "data-title": title }, content);
  const cells = [
    cell(null, "at-place", medal),
    make("th", { scope: "row", role: "rowheader" }, modelName(data, index, ""), auditFlag(data, index, openAudit)),
    cell(null, "number at-score", value),
    cell(null, "interval", make("span", { class: "bar", "aria-hidden": "true" }, bar, tick), range),
    cell("difference to best", "number at-rest", behind, noise),
    cell("effective queries", "number at-rest", effective, untrusted),
    cell("std over seeds", "number at-rest", deviation),
  ];
  const element = make("tr", { role: "row" }, cells.filter((_, i) => shown[i]));

  const show = (result, difference, scale) => {
    const word = MEDALS[result.place - 1];
    medal.className = `place ${word ?? ""}`;
    medal.replaceChildren(String(result.place ?? ""), word ? make("small", {}, word) : "");
    value.textContent = fixed(result.value);
    value.value = String(result.value);
    value.dataset.value = String(result.value);
    range.textContent = rangeText(result.low, result.high);
    const known = Number.isFinite(result.low) && Number.isFinite(result.high);
    bar.hidden = !known;
    bar.classList.toggle("doubtful", !result.trusted);
    const [from, to] = [scale(result.low), scale(result.high)];
    if (known) Object.assign(bar.style, { left: `${from}%`, width: `${to - from}%` });
    tick.hidden = result.place === null;
    tick.style.left = `${scale(result.value)}%`;
    showDifference(behind, noise, result, difference);
    effective.textContent = whole(result.effective);
    untrusted.textContent = result.trusted || !known ? "" : "unreliable interval";
    deviation.textContent = result.std === null || result.std === undefined ? "one seed" : fixed(result.std);
  };
  return { element, show };
}

function showDifference(behind, noise, result, difference) {
  const best = !difference || result.place === 1;
  const known = result.place !== null;
  behind.textContent = best && known ? "best" : signed(difference.value);
  behind.title = best || !known ? "" : `band ${rangeText(difference.low, difference.high)}`;
  const words = difference?.untested ? "not tested: other candidates" : "not significant";
  noise.textContent = best || !known ? "" : difference.beyond ? "significant" : words;
  noise.classList.toggle("beyond", !best && difference.beyond);
}

// One sentence on the best model at the current point, and remarks on the table.

function verdict(data, values, order, against) {
  if (order[0].place === null) return ["Every query has a single candidate, so there are no scores."];
  return [...comparison(data, values, order, against), ...untestedText(data, against)].flat(Infinity);
}

// The name of a model, with what the audit has against its file.
function cautiousName(data, index) {
  const { name, flag } = data.models[index];
  const caution = flag ? [` (but the audit ${flag.error ? "objects" : "warns"}: `, label(flag.reason), ")"] : [];
  return [make("strong", {}, label(name)), ...caution];
}

function untestedText(data, against) {
  const untested = against.filter((item) => item.untested);
  const names = untested.map((item) => make("strong", {}, label(data.models[item.model].name)));
  return names.length ? [" It is not tested against ", ...listed(names), ", because candidate sets differ."] : [];
}

function comparison(data, values, order, against) {
  const name = (index) => cautiousName(data, index);
  const [best] = order;
  const opening = [`At ${pointText(values)}: `];
  if (order.length === 1 || order[1].place === null) {
    return [...opening, name(best.model), ` scores ${fixed(best.value)} (${rangeText(best.low, best.high)}).`];
  }
  const joint = order.filter((result) => result.place === best.place);
  if (joint.length > 1) {
    return [...opening, ...listed(joint.map((result) => name(result.model))), " share the first place."];
  }
  const rivals = against.filter((item) => item.model !== best.model && Number.isFinite(item.value) && !item.untested);
  if (!rivals.length) return [...opening, name(best.model), " has the highest score."];
  const close = order.filter((result) => rivals.some((item) => item.model === result.model && !item.beyond));
  const lead = [...opening, name(best.model), " is best; its lead over "];
  if (!close.length) {
    return rivals.length === 1
      ? [...lead, name(rivals[0].model), " is significant."]
      : [...lead, `${rivals.length === 2 ? "both" : `all ${rivals.length}`} others is significant.`];
  }
  const most = 3;
  const named = close.slice(0, most).map((result) => name(result.model));
  if (close.length > most) named.push(plural(close.length - most, "other model"));
  return [...lead, ...listed(named), " is not significant."];
}

// Why intervals are unreliable: each reason with its models, unless it holds for all of them.
function scoresRemark(data, order) {
  const doubtful = order.filter((result) => !result.trusted);
  const reasons = [...new Set(doubtful.map((result) => result.remark))];
  const dashed = doubtful.some((result) => result.low < result.high) ? ["Dashed intervals are unreliable. "] : [];
  return dashed.concat(reasons.flatMap((reason) => {
    const own = doubtful.filter((result) => result.remark === reason);
    const names = listed(own.map((result) => label(data.models[result.model].name)));
    return own.length === order.length ? [reason, " "] : [...names, ": ", reason, " "];
  }));
}

const SCORE_COLUMNS = [
  "place", "model", "alpha", "beta", "score", "low", "high", "level", "trusted", "effective_queries",
  "deviation_over_seeds", "difference_to_best", "band_low", "band_high", "beyond_noise",
];

function saveScores(data, { alpha, beta }) {
  const against = data.models.length > 1 ? differences(data, alpha, beta) : [];
  const order = scores(data, alpha, beta).sort(byPlace);
  const rows = order.map((result) => {
    const item = against.find((difference) => difference.model === result.model) ?? {};
    return [
      result.place, data.models[result.model].name, alpha, beta, result.value, result.low, result.high, data.level,
      result.trusted, result.effective, result.std, item.value, item.low, item.high, item.beyond,
    ];
  });
  saveCsv("scores.csv", SCORE_COLUMNS, rows);
}
