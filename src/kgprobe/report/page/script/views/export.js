// Tables as CSV files that spreadsheets open as they are.

// A text that begins like a formula would be computed by a spreadsheet: an apostrophe keeps it a text. Control
// characters end some spreadsheets' reading.
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
  const link = make("a", { href: URL.createObjectURL(file), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
