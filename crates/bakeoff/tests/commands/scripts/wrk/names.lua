-- A module beside the script.
return {
  path = function(thread, number) return "/kv/item-" .. thread .. "-" .. number end,
}
