-- Fails in the middle of a run.
local count = 0

function request()
  count = count + 1
  if count > 40 then
    count = count + nothing
  end
  return wrk.format("GET", "/stats")
end

function done(summary) print("done after " .. summary.requests) end
