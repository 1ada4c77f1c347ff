-- Three requests in one string.
local batch

function init()
  local parts = {}
  for number = 1, 3 do parts[number] = wrk.format("PUT", "/kv/batch-" .. number, nil, "x") end
  batch = table.concat(parts)
end

function request() return batch end

local answers = 0
function response() answers = answers + 1 total = answers end

local one
function setup(thread) one = thread end
function done(summary) print("batches: " .. one:get("total") .. " answers of " .. summary.requests) end
