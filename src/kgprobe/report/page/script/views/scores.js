// Every model's score at the current point, recomputed while a slider moves. On a phone the rows are laid out as cards,
// which makes browsers forget that they are a table: the roles say it again.

const MEDALS = ["gold", "silver", "bronze"];

function createScores(data, state) {
  const several = data.models.length > 1;
  const seeded = data.models.some((model) => model.seeds > 1);
  const interval = `${percent(data.level)} interval`;
  const titles = ["Place", "Model", "Score", interval, "Behind the best", "Effective queries", "Deviation over seeds"];
  const shown = [several, true, true, true, several, true, seeded];
  const kinds = ["", "", "number", "", "number", "number", "number"];
  const heads = titles.map((title, i) => make("th", { scope: "col", role: "columnheader", class: kinds[i] }, title));
  const body = make("tbody", { role: "rowgroup" });
  const table = make("table", { class: "scores", role: "table" },
    make("caption", { class: "unseen" }, "Scores of every model at the current alpha and beta, best first"),
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

// Models without a score come last.
function byPlace(one, other) {
  return (one.place ?? Infinity) - (other.place ?? Infinity) || one.model - other.model;
}

function noiseText(data) {
  return `Beyond noise: larger than a ${percent(data.level)} band for all models and the whole map at once; `
    + "kgprobe decide at a single point asks for less.";
}

// One scale for all interval bars, so that they can be compared by eye.
function scoreScale(results) {
  const ends = results.flatMap(({ value, low, high }) => [value, low, high]).filter(Number.isFinite);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const room = Math.max((most - least) * 0.04, 1e-6);
  const span = most - least + 2 * room;
  return (value) => (100 * (value - least + room)) / span;
}

// A good score may come from a file that the audit objects to or warns about: that is said where the score is read.
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
    cell("behind the best", "number at-rest", behind, noise),
    cell("effective queries", "number at-rest", effective, untrusted),
    cell("deviation over seeds", "number at-rest", deviation),
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
    untrusted.textContent = result.trusted || !known ? "" : "untrusted interval";
    deviation.textContent = result.std === null || result.std === undefined ? "one seed" : fixed(result.std);
  };
  return { element, show };
}

function showDifference(behind, noise, result, difference) {
  const best = !difference || result.place === 1;
  const known = result.place !== null;
  behind.textContent = best && known ? "best" : signed(difference.value);
  behind.title = best || !known ? "" : `band ${rangeText(difference.low, difference.high)}`;
  noise.textContent = best || !known ? "" : difference.beyond ? "beyond noise" : "within noise";
  noise.classList.toggle("beyond", !best && difference.beyond);
}
