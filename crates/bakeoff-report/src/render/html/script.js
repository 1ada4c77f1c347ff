'use strict';
(function () {
  var each = function (selector, use, of) {
    Array.prototype.forEach.call((of || document).querySelectorAll(selector), use);
  };

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

  // Sort a table of key figures by a column, the largest first, then the smallest first.
  var units = { ns: 1e-9, 'µs': 1e-6, ms: 1e-3, s: 1, min: 60, KiB: 1024, MiB: 1048576, GiB: 1073741824 };
  var amount = function (row, column) {
    var found = /^[×<>]?\s*([\d,]*\.?\d+)\s*([^\s*]*)/.exec(row.cells[column].textContent.trim());
    return found ? parseFloat(found[1].replace(/,/g, '')) * (units[found[2]] || 1) : -1;
  };
  each('.stacks table', function (table) {
    var rows = Array.prototype.slice.call(table.tBodies[0].rows);
    if (rows.length < 2) return;
    each('thead th', function (head) {
      var column = head.cellIndex;
      var button = document.createElement('button');
      button.className = 'sort';
      button.type = 'button';
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener('click', function () {
        var ascending = head.getAttribute('aria-sort') === 'descending';
        each('th[aria-sort]', function (other) { other.removeAttribute('aria-sort'); }, table);
        head.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
        rows.sort(function (a, b) {
          var order = column === 0 ? b.cells[0].textContent.localeCompare(a.cells[0].textContent)
            : amount(b, column) - amount(a, column);
          return ascending ? -order : order;
        });
        rows.forEach(function (row) { table.tBodies[0].appendChild(row); });
      });
    }, table);
  });

  // Hide the rows that a filter leaves out. A row without a filter's value is not concerned.
  var filters = document.querySelectorAll('[data-filter]');
  var apply = function () {
    each('[data-row]', function (row) {
      row.hidden = Array.prototype.some.call(filters, function (filter) {
        var own = row.getAttribute('data-' + filter.getAttribute('data-filter'));
        return filter.value && own !== null && own.split('|').indexOf(filter.value) < 0;
      });
    });
  };
  Array.prototype.forEach.call(filters, function (filter) { filter.addEventListener('change', apply); });

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
})();
