'use strict';
(function () {
  var SVG = 'http://www.w3.org/2000/svg';
  var SECONDS_MAX = 7200;
  var byId = function (id) { return document.getElementById(id); };
  // Texts become text nodes, so none of them can be markup.
  var element = function (name, attributes, children) {
    var made = document.createElement(name);
    Object.keys(attributes || {}).forEach(function (key) { made.setAttribute(key, attributes[key]); });
    made.append.apply(made, children || []);
    return made;
  };
  var drawn = function (svg, name, attributes, text) {
    var made = document.createElementNS(SVG, name);
    Object.keys(attributes).forEach(function (key) { made.setAttribute(key, attributes[key]); });
    if (text !== undefined) made.textContent = text;
    svg.appendChild(made);
    return made;
  };
  var count = function (value) { return Math.round(value).toLocaleString('en-US'); };
  var bytes = function (value) {
    if (value === null) return 'unknown';
    var units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    var unit = 0;
    while (value >= 1024 && unit < 4) { value /= 1024; unit += 1; }
    return value.toFixed(unit && value < 100 ? 1 : 0) + ' ' + units[unit];
  };
  var time = function (ms) {
    if (ms < 1) return +(ms * 1000).toPrecision(3) + ' µs';
    return ms < 1000 ? +ms.toPrecision(3) + ' ms' : +(ms / 1000).toPrecision(3) + ' s';
  };
  var lasting = function (seconds) {
    if (seconds < 60) return seconds + ' s';
    if (seconds < 3600) return Math.floor(seconds / 60) + ' min ' + seconds % 60 + ' s';
    return Math.floor(seconds / 3600) + ' h ' + Math.floor(seconds % 3600 / 60) + ' min';
  };

  // State: `places` has the workloads and loads of the round, each with the seconds of each system.
  var run = { title: '', systems: [], rounds: 0 };
  var places = [];
  var trial = null, phase = '', ends = null, ended = false;

  var place = function () {
    var name = trial.workload + ' under ' + trial.load;
    var found = places.find(function (one) { return one.name === name; });
    if (!found) {
      found = { name: name, lines: {}, article: null };
      places.unshift(found);
    }
    return found;
  };
  var line = function () {
    var lines = place().lines;
    if (!lines[trial.system]) lines[trial.system] = { seconds: [], state: '' };
    return lines[trial.system];
  };

  var PANELS = [
    { title: 'Throughput, operations per second', of: function (one) { return one.verified; }, text: count },
    { title: 'Response time, p99', of: function (one) { return one.p99.ns === null ? NaN : one.p99.ns / 1e6; }, text: time, log: true },
    { title: 'Response time, p50', of: function (one) { return one.p50.ns === null ? NaN : one.p50.ns / 1e6; }, text: time, log: true },
    { title: 'Errors per second', of: function (one) { return one.errors; }, text: count }
  ];
  var LEFT = 66, RIGHT = 370, TOP = 8, BOTTOM = 130;

  // Returns the ticks of an axis, the lowest first.
  var ticks = function (least, most, log) {
    var found = [];
    if (log) {
      for (var power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); power += 1) {
        [1, 2, 5].forEach(function (digit) { found.push(digit * Math.pow(10, power)); });
      }
      var from = found.filter(function (tick) { return tick <= least; }).length - 1;
      var to = found.findIndex(function (tick) { return tick >= most; });
      return found.slice(Math.max(from, 0), Math.max(to, from + 1) + 1);
    }
    // All linear axes have counts, so no step is below 1.
    var step = Math.pow(10, Math.max(0, Math.floor(Math.log10(most / 2))));
    step = [1, 2, 5, 10].map(function (digit) { return digit * step; }).find(function (one) { return one * 3 >= most; });
    for (var tick = 0; tick < most + step; tick += step) found.push(tick);
    return found;
  };

  var chart = function (panel, lines) {
    var systems = run.systems.filter(function (name) { return lines[name]; });
    var values = [], longest = 10;
    systems.forEach(function (name) {
      longest = Math.max(longest, lines[name].seconds.length);
      lines[name].seconds.forEach(function (one) { values.push(panel.of(one)); });
    });
    values = values.filter(function (value) { return isFinite(value) && (!panel.log || value > 0); });
    var svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('viewBox', '0 0 380 172');
    svg.setAttribute('role', 'img');
    drawn(svg, 'title', {}, panel.title);
    var most = values.reduce(function (a, b) { return Math.max(a, b); }, panel.log ? 0 : 1) || 1;
    var least = values.reduce(function (a, b) { return Math.min(a, b); }, most);
    var marks = ticks(least, most, panel.log);
    var scale = function (value) { return panel.log ? Math.log10(value) : value; };
    var low = scale(marks[0]), high = scale(marks[marks.length - 1]);
    var up = function (value) { return BOTTOM - (scale(value) - low) / (high - low || 1) * (BOTTOM - TOP); };
    var across = function (second) { return LEFT + second / longest * (RIGHT - LEFT); };
    marks.forEach(function (tick) {
      var y = up(tick).toFixed(1);
      drawn(svg, 'line', { 'class': 'grid', x1: LEFT, x2: RIGHT, y1: y, y2: y });
      drawn(svg, 'text', { 'class': 'tick', 'text-anchor': 'end', x: LEFT - 6, y: +y + 4 }, panel.text(tick));
    });
    ticks(0, longest, false).filter(function (tick) { return tick <= longest; }).forEach(function (tick) {
      drawn(svg, 'text', { 'class': 'tick', 'text-anchor': 'middle', x: across(tick).toFixed(1), y: BOTTOM + 18 }, String(tick));
    });
    drawn(svg, 'text', { 'class': 'label', 'text-anchor': 'middle', x: (LEFT + RIGHT) / 2, y: BOTTOM + 34 }, 'seconds of load');
    systems.forEach(function (name) {
      var look = run.systems.indexOf(name) % 8, path = '', pen = false;
      lines[name].seconds.forEach(function (one, second) {
        var value = panel.of(one);
        if (!isFinite(value) || panel.log && !(value > 0)) { pen = false; return; }
        path += (pen ? 'L' : 'M') + across(second + 1).toFixed(1) + ' ' + up(value).toFixed(1) + (pen ? '' : 'h.1');
        pen = true;
      });
      if (path) drawn(svg, 'path', { 'class': 'line s' + look + (look ? ' d' + look : ''), d: path });
    });
    return element('figure', {}, [element('figcaption', {}, [panel.title]), svg]);
  };

  var legend = function (lines) {
    var items = run.systems.filter(function (name) { return lines[name]; }).map(function (name) {
      var look = run.systems.indexOf(name) % 8;
      var svg = document.createElementNS(SVG, 'svg');
      svg.setAttribute('viewBox', '0 0 30 14');
      drawn(svg, 'path', { 'class': 'line s' + look + (look ? ' d' + look : ''), d: 'M1 7L29 7' });
      return element('li', {}, [svg, name]);
    });
    return element('ul', { 'class': 'legend' }, items);
  };

  var table = function (caption, head, rows) {
    var cells = function (row) {
      return element('tr', {}, row.map(function (text, nth) {
        return nth ? element('td', head[nth] === 'state' ? {} : { 'class': 'n' }, [text]) : element('th', { scope: 'row' }, [text]);
      }));
    };
    var heads = head.map(function (text, nth) { return element('th', nth && text !== 'state' ? { scope: 'col', 'class': 'n' } : { scope: 'col' }, [text]); });
    return element('div', { 'class': 'scroll', tabindex: '0', role: 'region', 'aria-label': caption }, [
      element('table', {}, [
        element('caption', {}, [caption]),
        element('thead', {}, [element('tr', {}, heads)]),
        element('tbody', {}, rows.map(cells))
      ])
    ]);
  };

  var draw = function (one) {
    var rows = run.systems.filter(function (name) { return one.lines[name]; }).map(function (name) {
      var seconds = one.lines[name].seconds;
      var last = seconds[seconds.length - 1];
      var errors = seconds.reduce(function (sum, second) { return sum + second.errors; }, 0);
      if (!last) return [name, '–', '–', '–', '–', '–', one.lines[name].state];
      return [name, count(last.verified), last.p50.text, last.p99.text, count(last.errors), count(errors), one.lines[name].state];
    });
    var head = ['system', 'operations', 'p50', 'p99', 'errors', 'errors so far', 'state'];
    var article = element('article', {}, [
      element('h2', {}, [one.name]),
      legend(one.lines),
      element('div', { 'class': 'charts' }, PANELS.map(function (panel) { return chart(panel, one.lines); })),
      table('Last second of each system', head, rows)
    ]);
    if (one.article) one.article.replaceWith(article);
    else byId('places').prepend(article);
    one.article = article;
  };

  var showState = function () {
    if (ended || !trial) return;
    var left = ends === null ? '' : ', about ' + lasting(Math.max(0, Math.round((ends - Date.now()) / 1000))) + ' left';
    byId('state').textContent = 'Round ' + trial.round + (trial.round > run.rounds ? ' (in place of a disturbed one)' : ' of ' + run.rounds) + ', trial ' + trial.number + ' of ' + trial.of +
      ': ' + trial.system + ', ' + trial.workload + ' under ' + trial.load + (phase ? ' (' + phase + ')' : '') + left + '.';
  };
  setInterval(showState, 1000);

  var source = new EventSource('events');
  var on = function (name, use) {
    source.addEventListener(name, function (event) { use(JSON.parse(event.data)); });
  };
  var clear = function () {
    places = [];
    byId('places').replaceChildren();
  };
  on('run', function (data) {
    run = data;
    trial = null;
    clear();
    byId('title').textContent = run.title;
    document.title = run.title + ': live';
    byId('state').textContent = 'The first trial has not begun.';
  });
  on('round', clear);
  on('trial', function (data) {
    trial = data;
    phase = '';
    ends = Date.now() + trial.left * 1000;
    line().state = 'running';
    line().seconds = [];
    draw(place());
    showState();
  });
  on('phase', function (data) {
    phase = data.name;
    if (trial) showState();
    else byId('state').textContent = phase;
  });
  on('stage', function (data) {
    phase = 'load, ' + data.clients + (data.clients === 1 ? ' client' : ' clients');
    showState();
  });
  on('second', function (data) {
    if (!trial) return;
    var seconds = line().seconds;
    if (seconds.length === SECONDS_MAX) seconds.shift();
    seconds.push(data);
    draw(place());
    var rows = data.nodes.map(function (node) {
      return [node.name, node.cpu_percent === null ? 'unknown' : node.cpu_percent.toFixed(0) + ' %', bytes(node.memory)];
    });
    var unknown = element('p', { 'class': 'how' }, ['Unknown: samples of other machines arrive at the end of a trial.']);
    byId('usage').replaceChildren(rows.length ? table('Last sample', ['node of ' + trial.system, 'CPU, of one core', 'memory'], rows) : unknown);
  });
  on('done', function (data) {
    if (!trial) return;
    line().state = data.invalid === null ? 'done' : 'not valid: ' + data.invalid;
    ends = Date.now() + data.left * 1000;
    draw(place());
  });
  on('verdict', function (data) {
    var mark = data.provisional ? 'Provisional, after ' + data.trials + ' trials: ' : 'Result of ' + data.trials + ' trials: ';
    byId('verdict').textContent = mark + data.sentences[0];
    byId('support').textContent = data.sentences.slice(1).join(' ');
  });
  on('end', function (data) {
    ended = true;
    if (data.report === null) source.close();
    byId('state').textContent = data.report === null ? 'The run has ended.' : 'The run has ended. Its report is in ' + data.report;
  });
  // The report takes this page's place. Its script is a new element, since a parsed one never runs.
  source.addEventListener('report', function (event) {
    source.close();
    var report = new DOMParser().parseFromString(JSON.parse(event.data), 'text/html');
    var scripts = report.querySelectorAll('script:not([type])');
    Array.prototype.forEach.call(scripts, function (script) { script.remove(); });
    document.title = report.title;
    document.body.replaceChildren.apply(document.body, Array.prototype.slice.call(report.body.childNodes));
    Array.prototype.forEach.call(scripts, function (script) {
      var again = document.createElement('script');
      again.textContent = script.textContent;
      document.body.appendChild(again);
    });
    scrollTo(0, 0);
  });
  source.onerror = function () {
    if (ended) source.close();
    else byId('state').textContent = 'The connection to the run is lost; trying again.';
  };
})();
