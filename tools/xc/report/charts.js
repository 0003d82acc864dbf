'use strict';
// Small charts in SVG: axes with units, a legend, and a table of the numbers behind each.

const SVG = 'http://www.w3.org/2000/svg';
function make(namespace, tag, attributes, children) {
  const node = namespace ? document.createElementNS(namespace, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) if (value !== undefined) node.setAttribute(key, value);
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}
// Text always goes in as text: names come from models.
const html = (tag, attributes, ...children) => make(null, tag, attributes, children);
const svg = (tag, attributes, ...children) => make(SVG, tag, attributes, children);

// ---- numbers with units ----
function scaled(value, units) {
  const size = Math.abs(value);
  let unit = units[0];
  for (const candidate of units) if (size >= candidate[0]) unit = candidate;
  const shown = value / unit[0];
  const digits = Math.abs(shown) >= 100 ? 0 : Math.abs(shown) >= 10 ? 1 : 2;
  return shown.toFixed(digits) + ' ' + unit[1];
}
const units = {
  us: v => v === 0 ? '0' : scaled(v, [[1e-3, 'ns'], [1, 'µs'], [1e3, 'ms'], [1e6, 's']]),
  ms: v => v === 0 ? '0' : scaled(v, [[1e-3, 'µs'], [1, 'ms'], [1e3, 's']]),
  s: v => v === 0 ? '0' : scaled(v, [[1e-6, 'µs'], [1e-3, 'ms'], [1, 's']]),
  bytes: v => v === 0 ? '0' : scaled(v, [[1, 'B'], [1024, 'KiB'], [1048576, 'MiB'], [1073741824, 'GiB']]),
  count: v => Number(v).toLocaleString('en-US', { maximumFractionDigits: 2 }),
};
const signed = (v, unit) => (v > 0 ? '+' : v < 0 ? '−' : '') + unit(Math.abs(v));

// On an axis 1.50 s is 1.5 s.
const onAxis = (v, unit) => unit(v).replace(/(\.\d*?)0+(?= )/, '$1').replace('. ', ' ');

// Round steps of 1, 2 or 5 (bytes: powers of two), about `count` of them; `least` is the smallest step.
function ticks(low, high, count, binary, least = 0) {
  if (!(high > low)) high = low + 1;
  const rough = (high - low) / count;
  let step = binary ? 2 ** Math.ceil(Math.log2(Math.max(1, rough))) : 10 ** Math.floor(Math.log10(rough));
  if (!binary) step *= rough / step > 5 ? 10 : rough / step > 2 ? 5 : rough / step > 1 ? 2 : 1;
  step = Math.max(step, least);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k) out.push(k * step + 0);  // + 0: no -0
  return out;
}
function logTicks(low, high) {
  const all = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p)
    for (const m of [1, 2, 5]) all.push(m * 10 ** p);
  const inside = all.filter(t => t >= low * 0.999 && t <= high * 1.001);
  return inside.length > 7 ? inside.filter(t => Number.isInteger(Math.log10(t) + 1e-12) || /^1/.test(t.toExponential())) : inside;
}

// ---- tables ----
// columns: [name, numeric]; rows: arrays of texts or nodes. More than `page` rows come in steps.
function table(columns, rows, page = 500) {
  const body = html('tbody');
  const add = from => {
    for (const row of rows.slice(from, from + page))
      body.append(html('tr', {}, ...row.map((cell, k) => html('td', { class: columns[k][2] || (columns[k][1] ? 'n' : undefined) }, cell))));
  };
  add(0);
  const out = html('div', {}, html('div', { class: 'scroll', tabindex: '0' },
    html('table', {}, html('thead', {}, html('tr', {}, ...columns.map(c => html('th', { scope: 'col', class: c[1] ? 'n' : undefined }, c[0])))), body)));
  if (rows.length > page) {
    const more = html('button', { type: 'button' }, '');
    const label = () => { more.textContent = `Show more (${body.children.length} of ${rows.length})`; };
    more.addEventListener('click', () => {
      add(body.children.length);
      if (body.children.length >= rows.length) more.remove(); else label();
    });
    label();
    out.append(more);
  }
  return out;
}
// Made when it is opened for the first time.
function folded(label, build) {
  const out = html('details', {}, html('summary', {}, label));
  out.addEventListener('toggle', () => { if (out.children.length === 1) out.append(build()); });
  return out;
}

function legend(entries) {
  return html('ul', { class: 'legend' }, ...entries.map(([name, color]) =>
    html('li', {}, html('i', { style: `background:${color}`, 'aria-hidden': 'true' }), name)));
}

let serial = 0;
function picture(title, description, width, height, children) {
  const id = 'c' + ++serial;
  return svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-labelledby': `${id}t ${id}d` },
    svg('title', { id: id + 't' }, title), svg('desc', { id: id + 'd' }, description), ...children);
}

// ---- curves over time ----
// { title, note, x: seconds[], y: [{name, values[], color, step, bridge}], unit, yLabel, end, log, binary, least,
//   marks: [{x, text, color}] }; bridge: draws across intervals without a value
function curves(chart) {
  const W = 1000, H = 280, left = 84, right = 16, top = 14, bottom = 44;
  const drawn = chart.y.map(s => s.values.map(v => (v === null || (chart.log && v <= 0) ? NaN : v)));
  const all = drawn.flat().filter(Number.isFinite);
  if (all.length === 0) return html('p', { class: 'muted' }, chart.title + ': nothing was recorded.');
  const log = chart.log && Math.max(...all) / Math.min(...all) > 20;
  let low = log ? Math.min(...all) : Math.min(0, ...all), high = Math.max(...all);
  if (log) { low *= 0.9; high *= 1.15; } else if (high === low) high = low + 1;
  const yTicks = log ? logTicks(low, high) : ticks(low, high, 5, chart.binary, chart.least);
  if (!log) { low = Math.min(low, ...yTicks); high = Math.max(high, ...yTicks); high += (high - low) * 0.04; if (low < 0) low -= (high - low) * 0.04; }
  const x0 = 0, x1 = chart.end || Math.max(...chart.x, 1e-9);
  const px = v => left + (v - x0) / (x1 - x0) * (W - left - right);
  const py = v => H - bottom - (log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low)) * (H - top - bottom);
  const parts = [];
  for (const t of yTicks) {
    parts.push(svg('line', { class: t === 0 ? 'base' : 'grid', x1: left, x2: W - right, y1: py(t), y2: py(t) }));
    parts.push(svg('text', { class: 'tick', x: left - 8, y: py(t) + 4, 'text-anchor': 'end' }, onAxis(t, chart.unit)));
  }
  for (const t of ticks(x0, x1, 8)) {
    parts.push(svg('line', { class: 'base', x1: px(t), x2: px(t), y1: H - bottom, y2: H - bottom + 5 }));
    parts.push(svg('text', { class: 'tick', x: px(t), y: H - bottom + 18, 'text-anchor': 'middle' }, onAxis(t, units.s)));
  }
  parts.push(svg('line', { class: 'base', x1: left, x2: W - right, y1: H - bottom, y2: H - bottom }));
  parts.push(svg('text', { class: 'axis', x: (left + W - right) / 2, y: H - 6, 'text-anchor': 'middle' }, 'time since the engine was made'));
  parts.push(svg('text', { class: 'axis', x: 14, y: (top + H - bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 14 ${(top + H - bottom) / 2})` },
    chart.yLabel + (log ? ' (log scale)' : '')));
  for (const mark of chart.marks || []) {
    const line = svg('line', { class: 'marker', x1: px(mark.x), x2: px(mark.x), y1: top, y2: H - bottom, style: `stroke:${mark.color}` });
    line.append(svg('title', {}, mark.text));
    parts.push(line);
  }
  chart.y.forEach((s, k) => {
    let path = '', open = false;
    drawn[k].forEach((v, i) => {
      if (!Number.isFinite(v)) { if (!s.bridge) open = false; return; }
      const at = `${px(chart.x[i]).toFixed(1)} ${py(v).toFixed(1)}`;
      path += !open ? 'M' + at : s.step ? `H${px(chart.x[i]).toFixed(1)}V${py(v).toFixed(1)}` : 'L' + at;
      open = true;
    });
    parts.push(svg('path', { class: 'curve', d: path, style: `stroke:${s.color}` }));
  });
  const out = html('figure', {}, picture(chart.title, chart.note, W, H, parts), html('figcaption', {}, chart.note));
  if (chart.y.length > 1) out.prepend(legend(chart.y.map(s => [s.name, s.color])));
  out.append(folded('The numbers as a table', () => table([['time', true], ...chart.y.map(s => [s.name, true])],
    chart.x.map((x, i) => [units.s(x), ...chart.y.map(s => s.values[i] === null ? '–' : chart.unit(s.values[i]))]))));
  return out;
}

// ---- horizontal bars ----
// rows: [{label, tip, bars: [{value, color, text}]}]
function bars(title, note, rows, unit, axis) {
  const W = 1000, label = 330, right = 150, bar = 15, gap = 12;
  const most = Math.max(...rows.flatMap(r => r.bars.map(b => b.value)), 1e-12);
  let y = 8;
  const parts = [], px = v => label + v / most * (W - label - right);
  const top = y;
  for (const row of rows) {
    const name = svg('text', { x: label - 10, y: y + bar * row.bars.length / 2 + 4, 'text-anchor': 'end' }, short(row.label, kLabel));
    name.append(svg('title', {}, row.tip || row.label));
    parts.push(name);
    for (const b of row.bars) {
      parts.push(svg('rect', { x: label, y: y + 1, width: Math.max(1, px(b.value) - label), height: bar - 2, rx: 2, style: `fill:${b.color}` }));
      parts.push(svg('text', { x: Math.max(px(b.value), label + 1) + 6, y: y + bar - 3 }, b.text));
      y += bar;
    }
    y += gap;
  }
  const grid = [];
  for (const t of ticks(0, most, 5)) {
    grid.push(svg('line', { class: t === 0 ? 'base' : 'grid', x1: px(t), x2: px(t), y1: top, y2: y }));
    grid.push(svg('text', { class: 'tick', x: px(t), y: y + 16, 'text-anchor': 'middle' }, onAxis(t, unit)));
  }
  grid.push(svg('text', { class: 'axis', x: (label + W - right) / 2, y: y + 34, 'text-anchor': 'middle' }, axis));
  return html('figure', {}, picture(title, note, W, y + 42, [...grid, ...parts]), html('figcaption', {}, note));
}

// ---- columns ----
// items: [{label, tip, value}], in order; neighbours share a column where there are more than fit.
function columns(title, note, items, color, unit, yLabel) {
  const W = 1000, H = 280, left = 84, right = 16, top = 14, bottom = 58, fit = 120;
  const per = Math.ceil(items.length / fit), groups = [];
  for (let k = 0; k < items.length; k += per) groups.push(items.slice(k, k + per));
  const heights = groups.map(g => g.reduce((sum, i) => sum + i.value, 0)), most = Math.max(...heights, 1);
  const py = v => H - bottom - v / (most * 1.04) * (H - top - bottom), step = (W - left - right) / groups.length;
  const parts = [];
  for (const t of ticks(0, most, 5, false, 1)) {
    parts.push(svg('line', { class: t === 0 ? 'base' : 'grid', x1: left, x2: W - right, y1: py(t), y2: py(t) }));
    parts.push(svg('text', { class: 'tick', x: left - 8, y: py(t) + 4, 'text-anchor': 'end' }, unit(t)));
  }
  const longest = Math.max(...items.map(i => short(i.label, kLabel).length)), every = Math.ceil((longest * 7 + 16) / step);
  groups.forEach((group, k) => {
    const x = left + k * step, name = group.length === 1 ? group[0].label : `${group[0].label} to ${group[group.length - 1].label}`;
    const box = svg('rect', { x: x + step * 0.1, y: py(heights[k]), width: Math.max(1, step * 0.8), height: H - bottom - py(heights[k]), style: `fill:${color}` });
    box.append(svg('title', {}, `${name}: ${group.map(i => i.tip).join('; ')}`));
    parts.push(box);
    if (k % every === 0 && x + step / 2 + longest * 3.5 < W)
      parts.push(svg('text', { class: 'tick', x: x + step / 2, y: H - bottom + 18, 'text-anchor': 'middle' }, short(group[0].label, kLabel)));
  });
  parts.push(svg('text', { class: 'axis', x: 14, y: (top + H - bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 14 ${(top + H - bottom) / 2})` }, yLabel));
  parts.push(svg('text', { class: 'axis', x: (left + W - right) / 2, y: H - 10, 'text-anchor': 'middle' },
    per > 1 ? `shape (${per} neighbouring shapes per column)` : 'shape'));
  return html('figure', {}, picture(title, note, W, H, parts), html('figcaption', {}, note));
}

const kLabel = 43;  // characters of a name that fit beside a bar
const short = (text, length) => text.length > length ? text.slice(0, length - 1) + '…' : text;
