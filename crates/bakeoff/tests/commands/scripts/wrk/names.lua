-- A module next to the script.
return {
  path = function(thread, number) return "/kv/item-" .. thread .. "-" .. number end,
}
