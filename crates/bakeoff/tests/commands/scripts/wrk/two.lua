-- A server for each thread.
wrk.method = "PUT"
wrk.body = "x"

local number = 0

function setup(thread)
  number = number + 1
  if number == 2 then thread.addr = wrk.lookup("127.0.0.1", second)[1] end
end

-- The main state sees no arguments: the port comes by the environment, as people do it.
second = os.getenv("SECOND_PORT")

function init() print("to " .. tostring(wrk.thread.addr)) end
