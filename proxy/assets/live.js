'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  // Behind a path prefix the page may have been asked for without its last
  // slash; what it asks for lies below it all the same.
  const base = location.pathname.endsWith('/') ? location.pathname : location.pathname + '/';
  document.querySelectorAll('a[href^="matrix"]').forEach((a) => { a.href = base + a.getAttribute('href'); });
  const tokenKey = 'streamgauge-admin-token ' + base;
  let token = '';
  try { token = sessionStorage.getItem(tokenKey) || ''; } catch { /* storage is off: ask again after a reload */ }
  let paused = false, state = null, matrix = null, picked = null;

  // What has not changed is not touched, so that a selection and a reader's
  // place survive.
  const text = (node, s) => { if (node.textContent !== s) node.textContent = s; };
  const make = (tag, s, cls) => {
    const n = document.createElement(tag);
    if (s !== undefined) n.textContent = s;
    if (cls) n.className = cls;
    return n;
  };
  const rows = (id, list) => {
    const body = $(id).tBodies[0];
    while (body.rows.length > list.length) body.deleteRow(-1);
    list.forEach((cells, i) => {
      const row = body.rows[i] || body.insertRow();
      cells.forEach((c, k) => {
        const [s, cls] = Array.isArray(c) ? c : [c, ''];
        let cell = row.cells[k];
        if (!cell) {
          cell = make(k ? 'td' : 'th');
          if (!k) cell.scope = 'row';
          row.append(cell);
        }
        text(cell, s);
        if (cell.className !== cls) cell.className = cls;
      });
    });
  };

  const digits = (v, n) => v.toLocaleString('en', { maximumFractionDigits: n, minimumFractionDigits: n, useGrouping: v >= 10000 });
  const rate = (v) => v === null ? '–' : digits(v, v >= 1000 ? 0 : 1);
  const ms = (v) => v === null ? '–' : digits(v, v >= 100 ? 0 : v >= 10 ? 1 : 2);
  const nsAsMs = (v) => ms(v === null ? null : v / 1e6);
  const whole = (v) => v === null ? '–' : digits(v, 0);

  function status(words, cls) {
    text($('status'), words);
    $('status').className = 'status ' + (cls || '');
  }

  const svg = (tag, attrs) => {
    const n = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const k in attrs) n.setAttribute(k, attrs[k]);
    return n;
  };

  // A round number at or above v, for the top of a chart.
  function ceiling(v) {
    const p = 10 ** Math.floor(Math.log10(v));
    return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((m) => m * p).find((m) => m >= v * 0.999);
  }

  // line draws values from left to right; a null is a hole in the line.
  function line(values, top) {
    let d = '', pen = 'M';
    values.forEach((v, i) => {
      if (v === null) { pen = 'M'; return; }
      d += pen + (100 * (i + 0.5) / values.length).toFixed(2) + ' ' + (100 - 100 * v / top).toFixed(2);
      // A value between two holes would have no length.
      if (pen === 'M') d += 'h0.01';
      pen = 'L';
    });
    return d;
  }

  function chart(id, series, said, filled) {
    const box = $(id);
    const most = Math.max(0, ...series.flat().filter((v) => v !== null));
    box.replaceChildren();
    box.setAttribute('aria-label', said);
    if (!most) {
      box.append(make('p', 'nothing yet', 'empty'));
      return;
    }
    const top = ceiling(most);
    const s = svg('svg', { viewBox: '0 -6 100 106', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
    for (const y of [0, 50]) s.append(svg('path', { d: 'M0 ' + y + 'H100', class: 'rule' }));
    if (filled) s.append(svg('path', { d: 'M0 100' + line(series[0], top).replace('M', 'L') + 'L100 100Z', class: 'area' }));
    series.forEach((values, i) => s.append(svg('path', { d: line(values, top), class: 'l' + (i + 1) })));
    box.append(s);
    [[0, top], [50, top / 2]].forEach(([y, v]) => {
      const b = make('b', digits(v, v >= 10 || Number.isInteger(v) ? 0 : v >= 1 ? 1 : 2));
      b.style.top = ((y + 6) / 106 * 100) + '%';
      b.setAttribute('aria-hidden', 'true');
      box.append(b);
    });
  }

  function drawState() {
    const s = state, last = s.last;
    text($('title'), s.data || 'Proxy');
    document.title = rate(last.tok_s) + ' tok/s · ' + s.open + ' open · streamgauge';
    text($('t-open'), whole(s.open));
    text($('t-open-w'), s.decoding + ' decoding, ' + (s.open - s.decoding - s.whole) + ' waiting' + (s.whole ? ', ' + s.whole + ' not streamed' : ''));
    text($('t-rate'), rate(last.tok_s));
    text($('t-rate-w'), 'mean of ten seconds' + (last.guessed_tok_s > 0 ? '; ' + rate(last.guessed_tok_s) + ' counted as events' : ''));
    for (const k of ['ttft', 'tbt']) {
      text($('t-' + k), last[k].p50_ms === null ? '–' : ms(last[k].p50_ms) + ' ms');
      text($('t-' + k + '-w'), last[k].n ? 'five minutes, ' + whole(last[k].n) + (k === 'ttft' ? ' streams' : ' tokens') : 'none in five minutes');
      const slots = last[k + '_slots'];
      chart('c-' + k, ['p50_ms', 'p90_ms', 'p99_ms'].map((q) => slots.map((x) => x[q])),
        last[k].n ? 'median ' + ms(last[k].p50_ms) + ' ms, p90 ' + ms(last[k].p90_ms) + ', p99 ' + ms(last[k].p99_ms) + ' over five minutes' : 'no data yet');
    }
    chart('c-rate', [last.seconds], 'now ' + rate(last.tok_s) + ', highest second ' + whole(Math.max(...last.seconds)) + ' tokens', true);
    rows('percentiles', [['time to first token', last.ttft], ['time between tokens', last.tbt]].map(([name, q]) =>
      [name, whole(q.n), ms(q.p50_ms), ms(q.p90_ms), ms(q.p99_ms), ms(q.max_ms)]));

    rows('streams', s.streams.map((x) => [x.id, [x.model, 'w'], [x.upstream, 'w'],
      !x.observed ? ['unobserved', 'w'] : x.loop ? ['repeating', 'w acts'] : x.whole ? ['not streamed', 'w'] : [x.ttft_ns === null ? 'waiting' : 'decoding', 'w'],
      digits(x.age_ns / 1e9, 1), nsAsMs(x.ttft_ns), whole(x.generated_events), x.tokens ? whole(x.tokens) : '–', nsAsMs(x.quiet_ns)]));
    text($('streams-said'), !s.open ? 'None.' : s.open > s.streams.length ? 'The oldest ' + s.streams.length + ' of ' + s.open + '.' : '');

    rows('loops', s.loops.map((l) => [new Date(l.at).toLocaleTimeString(), [l.verdict, l.acts ? 'w acts' : 'w'], [l.model, 'w'], [l.channel, 'w'],
      whole(l.onset_token), whole(l.period), whole(l.cycles), whole(l.tokens),
      [l.id + (l.excerpt ? ' “' + l.excerpt + '”' : ''), l.excerpt ? 'wrap' : 'w']]));
    text($('loops-said'), s.loops.length ? 'The newest ' + s.loops.length + '; verdicts in red retire a stream.' : 'None seen.');

    rows('engines', s.upstreams.map((u) => [u.upstream,
      u.up ? ['up', 'w'] : ['put aside after ' + u.consecutive_failures + ' failures', 'w acts'],
      whole(u.open_requests), whole(u.connections_in_use), whole(u.connections_idle),
      [u.models.map((m) => m.id + (m.owned_by ? ' (' + m.owned_by + (m.max_model_len ? ', ' + whole(m.max_model_len) + ' tokens' : '') + ')' : '')).join(', ') || 'not told', 'wrap']]));
    text($('engines-said'), 'Proxy ' + s.version + ', up since ' + new Date(s.since).toLocaleString() + (s.not_ready ? '; not ready: ' + s.not_ready : ''));
  }

  const metrics = {
    total_tok_s: { name: 'Total tok/s', show: rate },
    request_tok_s: { name: 'Per request tok/s', show: rate },
    ttft_ms: { name: 'Time to first token, median, ms', show: ms, slow: true },
    tbt_ms: { name: 'Time between tokens, ms', show: ms, slow: true },
  };
  const groupOf = (c) => c.model + ' at ' + c.upstream;

  function drawMatrix() {
    const groups = [...new Set(matrix.cells.map(groupOf))];
    const pick = $('pick');
    if ([...pick.options].map((o) => o.value).join('\n') !== groups.join('\n')) {
      pick.replaceChildren(...groups.map((g) => { const o = make('option', g); o.value = g; return o; }));
    }
    // Until the reader picks one, it is the one with the most tokens.
    const tokens = (g) => matrix.cells.reduce((n, c) => n + (groupOf(c) === g ? c.output_tokens : 0), 0);
    pick.value = groups.includes(picked) ? picked : groups.reduce((a, b) => tokens(b) > tokens(a) ? b : a, groups[0]);
    $('pick-p').hidden = groups.length < 2;
    const key = document.querySelector('input[name=metric]:checked').value, m = metrics[key];
    const cells = matrix.cells.filter((c) => groupOf(c) === pick.value && c[key] !== null);
    const table = $('matrix');
    table.className = 'grid' + (m.slow ? ' slow' : '');
    const heads = [...new Map(cells.map((c) => [c.concurrency, c.concurrency_label])).entries()].sort((a, b) => a[0] - b[0]);
    const lines = [...new Map(cells.map((c) => [c.context_above, c.context_label])).entries()].sort((a, b) => a[0] - b[0]);
    text(table.caption, cells.length ? m.name + (groups.length === 1 ? ', ' + groups[0] : '') + ', by the prompt’s length (down) and streams decoding at once (across)' : '');
    const best = Math.max(...cells.map((c) => c[key]));
    const top = make('tr');
    if (cells.length) top.append(make('td'), ...heads.map(([, label]) => { const th = make('th', label); th.scope = 'col'; return th; }));
    table.tHead.replaceChildren(top);
    table.tBodies[0].replaceChildren(...lines.map(([above, label]) => {
      const tr = make('tr'), th = make('th', label);
      th.scope = 'row';
      tr.append(th, ...heads.map(([n]) => {
        const c = cells.find((x) => x.context_above === above && x.concurrency === n);
        if (!c) return make('td', '');
        const doubts = [];
        if (key !== 'ttft_ms') {
          if (c.estimated) doubts.push('estimated: not all tokens per event are known');
          if (c.output_tokens < 1000) doubts.push('only ' + c.output_tokens + ' tokens');
        } else if (c.ttft.n < 10) {
          doubts.push('only ' + c.ttft.n + ' streams');
        }
        const td = make('td', doubts.length ? '(' + m.show(c[key]) + ')' : m.show(c[key]), 'h' + (1 + Math.floor(8 * c[key] / best)));
        td.title = [whole(c.output_tokens) + ' tokens of ' + c.streams + ' streams', 'mean ' + rate(c.avg_decoding) + ' decoding',
          'TTFT ' + ms(c.ttft_ms) + ' ms of ' + c.ttft.n, ...doubts].join('; ');
        if (doubts.length) td.append(make('span', ' ' + doubts.join('; '), 'hidden'));
        return td;
      }));
      return tr;
    }));
    const l = matrix.left_out, left = [];
    if (l.loop_tokens) left.push(whole(l.loop_tokens) + ' tokens of loops');
    if (l.no_context_streams) left.push(whole(l.no_context_streams) + ' streams of unknown context');
    if (l.failed_streams) left.push(whole(l.failed_streams) + ' streams that failed or were cut');
    if (l.hidden_streams) left.push(whole(l.hidden_streams) + ' streams with reasoning out of sight');
    if (l.not_streamed_replies) left.push(whole(l.not_streamed_replies) + ' replies that were not streamed');
    text($('matrix-said'), (cells.length ? 'Since ' + new Date(matrix.since).toLocaleString() + '. In brackets: few tokens, or estimated.' :
      'No stream has ended yet: a stream enters the matrix at its end.') + (left.length ? ' Left out: ' + left.join(', ') + '.' : ''));
  }

  function draw() {
    if (paused) return;
    if (state) drawState();
    if (matrix) drawMatrix();
  }

  function took(event, data) {
    if (event === 'state') state = data;
    if (event === 'matrix') matrix = data;
    if (event === 'state' && !paused) drawState();
    if (event === 'matrix' && !paused) drawMatrix();
  }

  function askToken(words) {
    $('numbers').hidden = true;
    $('signin').hidden = false;
    $('pause').hidden = true;
    text($('token-said'), words);
    status('token needed', 'off');
    $('token').focus();
  }

  // An EventSource sends no Authorization header, so the event stream is read by
  // fetch, with a token or without.
  async function listen() {
    let left = '';
    const res = await fetch(base + 'live', { headers: token ? { Authorization: 'Bearer ' + token } : {}, cache: 'no-store' });
    if (res.status === 401) return 401;
    if (!res.ok) throw new Error('status ' + res.status);
    $('numbers').hidden = false;
    $('signin').hidden = true;
    $('pause').hidden = false;
    document.querySelectorAll('.open-only').forEach((a) => { a.hidden = token !== ''; });
    status(paused ? 'paused' : 'live', paused ? '' : 'good');
    const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error('ended');
      const blocks = (left + value).split('\n\n');
      left = blocks.pop();
      for (const b of blocks) {
        const at = b.indexOf('\ndata: ');
        took(b.slice('event: '.length, at), JSON.parse(b.slice(at + '\ndata: '.length)));
      }
    }
  }

  let running = false;
  async function run() {
    if (running) return;
    running = true;
    for (let wait = 1; ; wait = Math.min(wait * 2, 15)) {
      const begun = Date.now();
      try {
        if (await listen() === 401) {
          askToken(token ? 'That is not the token.' : '');
          token = '';
          break;
        }
      } catch {
        if (Date.now() - begun > 10000) wait = 1;
        status('connection lost, trying again', 'off');
      }
      await new Promise((r) => setTimeout(r, wait * 1000));
    }
    running = false;
  }

  $('token-form').addEventListener('submit', (e) => {
    e.preventDefault();
    token = $('token').value.trim();
    try { sessionStorage.setItem(tokenKey, token); } catch { /* see above */ }
    $('token').value = '';
    run();
  });
  $('pause').addEventListener('click', () => {
    paused = !paused;
    $('pause').setAttribute('aria-pressed', String(paused));
    status(paused ? 'paused' : 'live', paused ? '' : 'good');
    draw();
  });
  document.querySelectorAll('input[name=metric]').forEach((i) => i.addEventListener('change', () => matrix && drawMatrix()));
  $('pick').addEventListener('change', () => {
    picked = $('pick').value;
    if (matrix) drawMatrix();
  });
  run();
})();
