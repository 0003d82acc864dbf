// What the page says, section by section, from the recording in the element `data`.

const data = JSON.parse(document.getElementById('data').textContent);
const profile = data.profile, events = profile.events, series = data.series;
const color = name => `var(--${name})`;
const main = document.getElementById('main');
function section(title, text, ...content) {
  main.append(html('section', {}, html('h2', {}, title), text ? html('p', { class: 'muted' }, text) : null, ...content));
}

// Equal names get a number, so that a row of one chart is found in another.
const regionNames = new Map();
{
  const seen = new Map();
  for (const r of profile.regions) seen.set(r.name, (seen.get(r.name) || 0) + 1);
  const count = new Map();
  for (const r of profile.regions) {
    const k = (count.get(r.name) || 0) + 1;
    count.set(r.name, k);
    regionNames.set(r.identity, seen.get(r.name) > 1 ? `${r.name} #${k}` : r.name);
  }
}
const regionName = (id, otherwise) => regionNames.get(id) || otherwise || '';
const state = name => profile.regions.filter(r => r.state === name);

const finite = values => values.filter(v => v !== null);
function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : NaN;
}

function summary() {
  document.getElementById('about').textContent =
    `xc ${data.version}, mode ${data.jit}, threads: ${data.threads === '0' ? 'all cores' : data.threads}` +
    (data.stream ? `, stream ${data.stream}` : '') + `, recorded for ${units.s(data.seconds)}`;
  const latency = finite(series.latency_us), tenth = Math.max(1, Math.floor(latency.length / 10));
  const counters = profile.counters, calls = series.calls[series.calls.length - 1];
  const net = counters.net_saved_ms;
  const tiles = [
    [units.count(calls), 'calls'],
    [units.ms(data.load_ms), 'to load the model'],
    [units.us(data.first_us), 'first call'],
    [units.us(median(latency.slice(0, tenth))), 'a call in the first tenth (median)'],
    [units.us(median(latency.slice(-tenth))), 'a call in the last tenth (median)'],
    [`${state('live').length} of ${profile.regions.length}`, 'regions replaced by fused kernels'],
    [units.ms(counters.compile_ms), 'CPU in the background: packing weights, search, compiling, checks'],
    [signed(net, units.ms), 'time saved on calls, minus that CPU', net < 0 ? 'bad' : 'good'],
  ];
  main.append(html('div', { class: 'tiles' }, ...tiles.map(([value, name, look]) =>
    html('div', { class: 'tile' }, html('b', { class: look }, value), html('span', {}, name)))));
  const say = [];
  if (profile.regions.length === 0)
    say.push(data.jit === 'off' ? 'The JIT was off: nothing was looked for, and every step ran on vendor and own kernels.'
      : events.some(e => e.kind === 'searched') ? 'The graph was searched, and no region was found that could be fused.' : 'The calls were too few to look for regions.');
  else if (counters.compiled_regions === 0)
    say.push(`Nothing was compiled: for none of the ${profile.regions.length} candidates had running on cost as much as compiling would have.`);
  const banned = state('banned').length;
  if (banned > 0) say.push(`${banned} region(s) were turned down; the tables below say why.`);
  if (net < 0 && counters.compiled_regions > 0) say.push('The price of compiling has not been earned back yet in this recording.');
  if (counters.events_dropped > 0) say.push(`${units.count(counters.events_dropped)} events in the middle are no longer kept.`);
  for (const line of say) main.append(html('p', {}, line));
}

const decisions = { accepted: 'live', kept: 'live', rejected: 'banned', rolled_back: 'banned', mismatch: 'banned' };
const marks = () => events.filter(e => decisions[e.kind]).slice(0, 200).map(e =>
  ({ x: e.time_ns / 1e9, color: color(decisions[e.kind]), text: `${e.kind} ${regionName(e.region, e.subject)}: ${e.detail || ''}` }));

function timeOfCalls() {
  section('Time of a call', data.stream ? 'Sizes change from call to call, so the curve spreads by size as well as by tier.' : '',
    curves({ title: 'Time of a call over the recording', note: 'Median per interval. Dashed lines: a region was accepted (green) or turned down (red).',
      x: series.t_s, y: [{ name: 'time of a call', values: series.latency_us, color: color('s0'), bridge: true }],
      unit: units.us, yLabel: 'time of a call', log: true, end: data.seconds, marks: marks() }));
}

function saved() {
  const ms = series.net_saved_ms.map(v => v / 1e3), cost = series.compile_ms.map(v => v / 1e3);
  section('Net time saved', 'Time before minus time now over all calls with fused kernels and trials, minus all CPU spent in the background (packing weights, search, compiling, checks). It starts below zero: the price is paid first.',
    curves({ title: 'Net seconds saved over time', note: 'Above the zero line the compiler has earned back what it cost.',
      x: series.t_s, y: [{ name: 'net saved', values: ms, color: color('s2'), step: false }, { name: 'CPU spent (cost)', values: cost, color: color('s1') }],
      unit: units.s, yLabel: 'time saved', end: data.seconds }));
}

// ---- tiers ----
const enters = { candidate: 'candidate', queued: 'queued', compiled: 'verifying', verified: 'ready', trial: 'trial', accepted: 'live', kept: 'live',
  rejected: 'banned', rolled_back: 'banned', refused: 'banned', mismatch: 'banned', jit_disabled: 'banned' };
const stateNames = { candidate: 'candidate: vendor and own kernels', queued: 'queued', verifying: 'compiled, being verified', ready: 'verified, waits for its trial',
  trial: 'on trial: both run in turn', live: 'live: the fused kernel', banned: 'turned down' };
function spansOf(region, end) {
  const spans = [];
  for (const e of events) {
    if (e.region !== region.identity || !enters[e.kind]) continue;
    const at = e.time_ns / 1e9;
    if (spans.length) spans[spans.length - 1].end = at;
    spans.push({ state: enters[e.kind], begin: at, end, event: e });
  }
  // Mode sync publishes what it has verified without a trial.
  const last = spans[spans.length - 1];
  if (last && region.state === 'live' && data.jit === 'sync') last.state = 'live';
  return spans;
}
function timeline() {
  const kShown = 60;
  const regions = [...profile.regions].sort((a, b) => Math.abs(b.net_saved_ms) - Math.abs(a.net_saved_ms)).slice(0, kShown);
  if (regions.length === 0) return section('Tiers of each region', 'There is no region to show.');
  const last = Math.max(0, ...events.filter(e => enters[e.kind]).map(e => e.time_ns / 1e9));
  const cut = last * 1.25 < data.seconds, end = cut ? Math.max(last * 1.25, 1e-6) : data.seconds;
  const W = 1000, left = 330, right = 16, row = 24, top = 6, bottom = top + regions.length * row;
  const px = v => left + v / end * (W - left - right);
  const parts = [];
  for (const t of ticks(0, end, 7)) {
    parts.push(svg('line', { class: 'grid', x1: px(t), x2: px(t), y1: top, y2: bottom }));
    parts.push(svg('text', { class: 'tick', x: px(t), y: bottom + 16, 'text-anchor': 'middle' }, onAxis(t, units.s)));
  }
  parts.push(svg('text', { class: 'axis', x: (left + W - right) / 2, y: bottom + 34, 'text-anchor': 'middle' }, 'time since the engine was made'));
  const rows = [], used = new Set();
  regions.forEach((region, k) => {
    const y = top + k * row, name = regionName(region.identity);
    const label = svg('text', { x: left - 10, y: y + row / 2 + 4, 'text-anchor': 'end' }, short(name, kLabel));
    label.append(svg('title', {}, name));
    parts.push(label);
    for (const span of spansOf(region, data.seconds)) {
      used.add(span.state);
      rows.push([name, span.state, units.s(span.begin), units.s(span.end), span.event.detail || '']);
      if (span.begin >= end) continue;
      const x = px(span.begin), width = Math.max(1.5, px(Math.min(span.end, end)) - x);
      const box = svg('rect', { x, y: y + 3, width, height: row - 7, style: `fill:${color(span.state)}` });
      box.append(svg('title', {}, `${name}: ${stateNames[span.state]}, ${units.s(span.begin)} to ${units.s(span.end)}. ${span.event.detail || ''}`));
      parts.push(box);
    }
  });
  const note = 'A row per region; hover a box for its numbers.' + (cut ? ` The axis ends soon after the last decision at ${units.s(last)}; nothing changed until the end at ${units.s(data.seconds)}.` : '') +
    (profile.regions.length > kShown ? ` The ${kShown} regions that saved or cost most of ${profile.regions.length}.` : '');
  section('Tiers of each region', 'From candidate to live or turned down.',
    legend(Object.keys(stateNames).filter(s => used.has(s)).map(s => [stateNames[s], color(s)])),
    html('figure', {}, picture('Tiers of each region over time', note, W, bottom + 42, parts), html('figcaption', {}, note)),
    folded('The numbers as a table', () => table([['region', false], ['state', false], ['from', true], ['to', true], ['why', false, 'why']], rows)));
}

// ---- before and after ----
function beforeAfter() {
  const measured = profile.regions.filter(r => r.base_us > 0 && r.fused_us > 0)
    .sort((a, b) => (b.base_us - b.fused_us) * b.calls - (a.base_us - a.fused_us) * a.calls);
  const kShown = 30;
  if (measured.length === 0) section('Before and after', 'No region has been through a trial, so there is nothing to compare.');
  else section('Before and after', 'Time of what a region replaces and of its fused kernel, per call, as its trial measured it on the same live calls (medians of alternating runs).',
    legend([['before: the kernels it replaces', color('s1')], ['after: the fused kernel', color('s0')]]),
    bars('Time before and after, per region', measured.length > kShown ? `The ${kShown} regions with the largest saving of ${measured.length}.` : 'Shorter is faster. A region that was turned down did not stay in use.',
      measured.slice(0, kShown).map(r => ({ label: `${regionName(r.identity)}${r.state === 'live' ? '' : ` [${r.state}]`}`, tip: r.reason, bars: [
        { value: r.base_us, color: color('s1'), text: units.us(r.base_us) },
        { value: r.fused_us, color: color('s0'), text: `${units.us(r.fused_us)}  (${(r.base_us / r.fused_us).toFixed(2)}x)` }] })), units.us, 'time per call'));
  if (profile.regions.length === 0) return;
  const opt = (v, unit, mark) => v > 0 ? (mark ? '~' : '') + unit(v) : '–';
  main.lastElementChild.append(folded(`All regions as a table (${profile.regions.length})`, () => table(
    [['region', false], ['state', false], ['places', true], ['calls', true], ['before', true], ['after', true], ['predicted', true], ['compile CPU', true], ['code', true], ['worst error', true], ['net saved', true], ['last refusal', false, 'why']],
    profile.regions.map(r => [regionName(r.identity), r.state, units.count(r.uses), units.count(r.calls), opt(r.base_us, units.us), opt(r.fused_us, units.us), opt(r.predicted_us, units.us),
      units.ms(r.compile_ms), units.bytes(r.code_bytes), r.worst_error > 0 ? r.worst_error.toPrecision(2) + ' of bound' : '–', signed(r.net_saved_ms, units.ms), r.reason]))));
  main.lastElementChild.append(folded('Per region and shape', () => table(
    [['region', false], ['shape', false], ['calls', true], ['of these fused', true], ['before (median)', true], ['fused (median)', true], ['now (mean)', true], ['predicted', true], ['saved', true]],
    profile.regions.flatMap(r => r.shapes.map(s => [regionName(r.identity), s.shape, units.count(s.calls), units.count(s.live_calls), opt(s.before_us, units.us, s.before_estimated),
      opt(s.fused_us, units.us), opt(s.now_us, units.us), opt(s.predicted_us, units.us), signed(s.saved_ms, units.ms)])))));
  if (profile.regions.some(r => r.inputs.length > 0))
    main.lastElementChild.append(folded('What the regions read, in a sample', () => table(
      [['region', false], ['value', false], ['looks', true], ['elements', true], ['zeros', true], ['one element', false]],
      profile.regions.flatMap(r => r.inputs.map(v => [regionName(r.identity), v.name, units.count(v.looks), units.count(v.elements), (v.zeros * 100).toFixed(0) + ' %',
        !v.scalar ? '' : v.constant ? `always ${v.value}` : 'changes'])))));
}

// ---- shapes, queue, memory ----
function shapes() {
  const kBars = 16, all = data.shapes, few = all.length <= kBars;
  const note = few ? 'Beside each bar: calls, and the median time of a call.'
    : `${all.length} shapes in the order of their size; hover a column for its calls and times.` + (data.shapes_left_out ? ` ${data.shapes_left_out} with the fewest calls are left out.` : '');
  section('Shapes seen', '', few
    ? bars('Calls per shape', note, all.map(s => ({ label: s.shape, bars: [{ value: s.calls, color: color('s3'), text: `${units.count(s.calls)} · ${units.us(s.median_us)}` }] })), units.count, 'calls')
    : columns('Calls per shape', note, all.map(s => ({ label: s.shape, value: s.calls, tip: `${units.count(s.calls)} calls, median ${units.us(s.median_us)}` })), color('s3'), units.count, 'calls'),
    folded('The numbers as a table', () => table([['shape', false], ['calls', true], ['first call', true], ['median call', true], ['all calls', true]],
      all.map(s => [s.shape, units.count(s.calls), units.us(s.first_us), units.us(s.median_us), units.ms(s.total_ms)]))));
}
function queue() {
  if (events.length === 0) return section('Compile queue', 'There was no background work.');
  const points = events.map(e => [e.time_ns / 1e9, e.queue]).concat(series.t_s.map((t, k) => [t, series.queued[k]])).sort((a, b) => a[0] - b[0]);
  const waits = events.filter(e => e.kind === 'postponed').length;
  section('Compile queue', `Background jobs that wait: searches, compiles, checks, looks at trials.${waits ? ` They waited ${waits} time(s) for the budget of compile CPU.` : ''}`,
    curves({ title: 'Background jobs waiting', note: 'At every event and sample.', x: points.map(p => p[0]), y: [{ name: 'jobs waiting', values: points.map(p => p[1]), color: color('s3'), step: true }],
      unit: units.count, yLabel: 'jobs', least: 1, end: data.seconds }));
}
function memory() {
  section('Memory', 'Resident memory is that of the whole process, with the model and this tool.',
    curves({ title: 'Resident memory', note: 'Of the process.', x: series.t_s, y: [{ name: 'resident', values: series.rss_bytes, color: color('s0') }], unit: units.bytes, yLabel: 'bytes', binary: true, end: data.seconds }),
    curves({ title: 'Memory of the engine', note: 'Working memory: arenas, scratch and outputs of runs. Bound plans: what is kept per shape. Code: fused kernels.', x: series.t_s, y: [
      { name: 'working memory', values: series.working_bytes, color: color('s0') }, { name: 'bound plans', values: series.bound_bytes, color: color('s1') },
      { name: 'code', values: series.code_bytes, color: color('s2') }], unit: units.bytes, yLabel: 'bytes', binary: true, end: data.seconds }));
}

// ---- plan and events ----
function steps() {
  const rows = [];
  const add = (program, prefix) => {
    program.steps.forEach((s, k) => rows.push([prefix + k, s.nodes.map(n => n.op).join('+') || 'copy', s.kernel, s.time_us > 0 ? units.us(s.time_us) : '–', (s.outputs || [''])[0], s.name,
      s.refused.map(r => `${r.kernel}: ${r.reason}`).join('; ')]));
    for (const [k, body] of (program.bodies || []).entries()) add(body, `${prefix}body ${k}: `);
  };
  add(data.explain, '');
  section('Steps of the plan', 'At the end of the recording, for the shape that ran last: what executes each step, and which kernels were asked before and said no.',
    table([['step', true], ['operators', false], ['kernel', false], ['time', true], ['result', false], ['node', false], ['asked before, and why not', false, 'why']], rows, 300));
}
const known = new Set(['kind', 'time_ns', 'run', 'queue', 'region', 'subject', 'detail']);
function field(key, value) {
  for (const unit of ['us', 'ms']) if (key.endsWith('_' + unit)) return `${key.slice(0, -3).replace('_', ' ')} ${units[unit](value)}`;
  if (key === 'back_off_s') return value < 0 ? 'for good' : `back in ${units.s(value)}`;
  if (key.endsWith('bytes')) return `${key.replace('_bytes', '')} ${units.bytes(value)}`;
  return `${key.replace('_', ' ')} ${typeof value === 'number' ? units.count(Number(value.toPrecision(3))) : value}`;
}
function log() {
  section('Events', `Every decision with its numbers: ${units.count(events.length)} events.`,
    folded('Show them', () => table([['time', true], ['call', true], ['event', false], ['region', false], ['numbers', false], ['detail', false, 'why']],
      events.map(e => [units.s(e.time_ns / 1e9), units.count(e.run), e.kind.replace('_', ' '), regionName(e.region, e.subject),
        Object.entries(e).filter(([key, v]) => !known.has(key) && v !== null && v !== 0).map(([key, v]) => field(key, v)).join(', '), e.detail || '']))));
}

for (const part of [summary, timeOfCalls, saved, timeline, beforeAfter, shapes, queue, memory, steps, log]) part();
