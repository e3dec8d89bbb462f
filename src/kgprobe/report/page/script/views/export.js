// Tables as CSV files that spreadsheets open as they are.

// A text that begins like a formula would be computed by a spreadsheet: an apostrophe keeps it a text.
function csvCell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
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
