/* What the other scripts share: numbers as people read them, and pieces of a page. All text goes in as text. */
const view = (() => {
  "use strict";
  const by = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const one = document.createElement(tag);
    if (text !== undefined && text !== null) one.textContent = text;
    if (kind) one.className = kind;
    return one;
  };
  const number = (value) => {
    if (typeof value === "number") return value;
    return value === "∞" ? Infinity : value === "-∞" ? -Infinity : NaN;
  };
  const show = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(6)));
    return String(value);
  };
  const lasted = (seconds) => {
    if (seconds === null || seconds === undefined) return "";
    if (seconds < 10) return `${Number(seconds.toPrecision(2))} s`;
    if (seconds < 60) return `${Math.round(seconds)} s`;
    const minutes = Math.round(seconds / 60);
    if (minutes < 60) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
    return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  };
  const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
  const record = (pairs) => {
    const list = make("dl", null, "record");
    for (const [label, text] of pairs) {
      if (text === null || text === undefined || text === "") continue;
      list.append(make("dt", label), make("dd", text));
    }
    return list;
  };
  return { by, make, number, show, lasted, count, record, base: location.pathname.replace(/\/$/, "") };
})();
