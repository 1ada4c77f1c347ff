'use strict';
(function () {
  var root = document.documentElement;
  var each = function (selector, use, of) {
    Array.prototype.forEach.call((of || document).querySelectorAll(selector), use);
  };

  // Apply the stored theme. Browsers may deny storage to a file.
  var theme = document.getElementById('theme');
  var remembered = null;
  try { remembered = localStorage.getItem('bakeoff-theme'); } catch (_) { remembered = null; }
  var prefersDark = function () { return matchMedia('(prefers-color-scheme: dark)').matches; };
  var isDark = function () {
    var set = root.getAttribute('data-theme');
    return set ? set === 'dark' : prefersDark();
  };
  var label = function () { theme.textContent = isDark() ? 'Light' : 'Dark'; };
  if (remembered === 'dark' || remembered === 'light') root.setAttribute('data-theme', remembered);
  theme.hidden = false;
  theme.setAttribute('aria-label', 'Switch between light and dark');
  label();
  theme.addEventListener('click', function () {
    var chosen = isDark() ? 'light' : 'dark';
    root.setAttribute('data-theme', chosen);
    try { localStorage.setItem('bakeoff-theme', chosen); } catch (_) { /* not remembered */ }
    label();
  });

  // Unfold a section that is the target of a link.
  var unfold = function () {
    var section = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    var fold = section && section.querySelector('.fold');
    if (fold) {
      fold.open = true;
      section.scrollIntoView();
    }
  };
  addEventListener('hashchange', unfold);
  each('nav a', function (link) {
    // Following the same link again fires no `hashchange`.
    link.addEventListener('click', function () { setTimeout(unfold, 0); });
  });
  unfold();

  // Select the trial to show.
  each('.pick', function (pick) {
    var select = pick.querySelector('select');
    pick.hidden = select.options.length < 2;
    var show = function () {
      Array.prototype.forEach.call(select.options, function (option) {
        document.getElementById(option.value).hidden = option.value !== select.value;
      });
    };
    select.addEventListener('change', show);
    show();
  });

  // Build tables of numbers when they are opened.
  var tabulate = function (pre) {
    var lines = pre.textContent.split('\n').filter(function (line) { return line !== ''; });
    var box = document.createElement('div');
    box.className = 'scroll';
    box.tabIndex = 0;
    box.setAttribute('role', 'region');
    box.setAttribute('aria-label', 'Numbers');
    var table = box.appendChild(document.createElement('table'));
    var head = table.createTHead();
    var body = table.createTBody();
    lines.forEach(function (line, nth) {
      var row = (nth === 0 ? head : body).insertRow();
      line.split('\t').forEach(function (text, place) {
        var heading = nth === 0 || place === 0;
        var cell = row.appendChild(document.createElement(heading ? 'th' : 'td'));
        if (heading) cell.scope = nth === 0 ? 'col' : 'row';
        cell.textContent = text;
      });
    });
    pre.replaceWith(box);
  };
  each('details', function (details) {
    details.addEventListener('toggle', function () {
      if (details.open) each('.numbers', tabulate, details);
    });
  });

  // Save the files in this page.
  each('a[data-file]', function (link) {
    var block = document.getElementById(link.getAttribute('data-file'));
    link.href = '#data';
    link.addEventListener('click', function () {
      var text = block.textContent;
      var isText = !/\.json$/.test(link.download);
      if (isText) text = JSON.parse(text);
      var type = isText ? 'text/plain' : 'application/json';
      link.href = URL.createObjectURL(new Blob([text], { type: type }));
      setTimeout(function () { URL.revokeObjectURL(link.href); link.href = '#data'; }, 10000);
    });
  });

  // Unfold everything for print, except the numbers of charts.
  var opened = [];
  addEventListener('beforeprint', function () {
    each('.fold:not([open]), article > details:not([open])', function (details) {
      details.open = true;
      opened.push(details);
    });
  });
  addEventListener('afterprint', function () {
    opened.forEach(function (details) { details.open = false; });
    opened = [];
  });
})();
