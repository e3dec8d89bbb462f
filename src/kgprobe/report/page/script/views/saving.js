// What a reader takes away: CSV files, LaTeX of a table, images of charts, the command line.

// CSV files for spreadsheets.

// An apostrophe keeps spreadsheets from evaluating text that starts like a formula. Control characters are replaced,
// because some spreadsheets stop reading at them.
function csvCell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const plain = String(value).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, "\ufffd");
  const text = /^(\s*[=+\-@]|[\t\r])/.test(plain) ? `'${plain}` : plain;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function toCsv(header, rows) {
  return [header, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function saveCsv(name, header, rows) {
  // The byte order mark tells spreadsheets that this is UTF-8.
  const file = new Blob(["\ufeff", toCsv(header, rows)], { type: "text/csv;charset=utf-8" });
  const address = URL.createObjectURL(file);
  saveLink(name, address);
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function saveLink(name, address) {
  const link = make("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

// A button that copies a text. Some browsers deny clipboard access to local files; the text is then shown and selected.
function copyButton(title, text, attributes = {}) {
  const said = make("span", { role: "status", class: "remark" });
  const source = make("pre", { class: "source", tabindex: "0", hidden: true });
  const copy = button(title, async () => {
    source.textContent = text();
    try {
      await navigator.clipboard.writeText(source.textContent);
      said.textContent = "Copied.";
    } catch {
      source.hidden = false;
      getSelection().selectAllChildren(source);
      said.textContent = document.execCommand("copy") ? "Copied." : "Selected: copy it with the keyboard.";
    }
  }, attributes);
  return [copy, said, source];
}

// LaTeX of the shown rows and columns of a table, for the booktabs package.

function latexButton(data, table, what) {
  return copyButton("Copy LaTeX", () => latexTable(data.latex, table()), { "aria-label": `Copy LaTeX of the ${what}` });
}

function latexTable(letters, table) {
  const heads = [...table.tHead.rows[0].cells];
  const layout = heads.map((head) => (head.classList.contains("number") ? "r" : "l")).join("");
  const line = (cells, write) => `${[...cells].map((cell) => write(letters, cell)).join(" & ")} \\\\`;
  return [
    `\\begin{tabular}{${layout}} % needs \\usepackage{booktabs}`,
    "\\toprule",
    line(heads, (_, cell) => latexText(letters, wordsOf(cell))),
    "\\midrule",
    ...Array.from(table.tBodies[0].rows, (row) => line(row.cells, latexCell)),
    "\\bottomrule",
    "\\end{tabular}",
    "",
  ].join("\n");
}

const BESIDE = ".range-text, .noise, .remark";

// The value of a cell, bold where the page has it bold, and in small print what stands below it.
function latexCell(letters, cell) {
  const main = cell.cloneNode(true);
  main.querySelectorAll(`${BESIDE}, .flag`).forEach((part) => part.remove());
  const beside = [...cell.querySelectorAll(BESIDE)].map(wordsOf).filter((text) => text !== "");
  const value = latexText(letters, wordsOf(main));
  const bold = value !== "" && main.querySelector("strong") ? `\\textbf{${value}}` : value;
  return [bold, ...beside.map((text) => `{\\footnotesize ${latexText(letters, text)}}`)].filter((part) => part !== "").join(" ");
}

// The visible text of an element, its parts apart.
function wordsOf(element) {
  const copy = element.cloneNode(true);
  copy.querySelectorAll(".unseen, [aria-hidden=true], [hidden]").forEach((part) => part.remove());
  const texts = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) found.push(texts.currentNode.data);
  return found.join(" ").replace(/\s+/g, " ").trim();
}

// As latex_text in Python, with its table of letters: other letters are written as code points.
function latexText(letters, text) {
  const apart = text.normalize("NFC").replaceAll("\0", " ").replace(/-(?=-)|'(?=')/g, "$&\0");
  const written = (letter) => {
    if (letter === "\0") return "{}";
    const code = letter.codePointAt(0);
    const plain = code >= 0x20 && code < 0x7f ? letter : `\\texttt{U+${code.toString(16).toUpperCase().padStart(4, "0")}}`;
    return letters[letter] ?? plain;
  };
  return Array.from(apart, written).join("");
}
