-- Runs on each node: defines the functions that clients call, and applies its settings (config.lua).
-- On the first node it also creates the spaces and the user, once.
--
-- A restart runs this file again.

local digest = require('digest')
local ffi = require('ffi')
local fiber = require('fiber')
local fio = require('fio')
local config = dofile('config.lua')

ffi.cdef('void *mmap(void *addr, size_t length, int prot, int flags, int fd, int64_t offset);')

-- Three numbers in a file mapped into memory. Counting there costs no more than in ordinary memory, and
-- the file keeps the last values when this process is killed.
local function counters()
    local file = fio.open('checks', {'O_RDWR', 'O_CREAT'}, tonumber('600', 8))
    file:truncate(24)
    -- Readable, writable, shared with the file.
    local page = ffi.C.mmap(nil, 24, 3, 1, file.fh, 0)
    assert(ffi.cast('intptr_t', page) ~= -1, 'the file of counts cannot be mapped')
    return ffi.cast('double *', page)
end

-- Checks since this process started. The start time distinguishes the counts of a restarted process.
local GRANTED, REFUSED, SINCE = 0, 1, 2
local counts = counters()
counts[GRANTED], counts[REFUSED], counts[SINCE] = 0, 0, tonumber(fiber.time64())

-- Returns true if a session may access a resource. A session that is not a text may access nothing.
local function may(session, resource)
    if type(session) ~= 'string' or type(resource) ~= 'string' then
        return false
    end
    local found = box.space.sessions:get(session)
    return found ~= nil and resource:sub(1, #found[2]) == found[2]
end

-- Called by a gateway before each request. Must not yield between the decision and its count.
function check_access(session, resource)
    local granted = may(session, resource)
    if granted then
        counts[GRANTED] = counts[GRANTED] + 1
    else
        counts[REFUSED] = counts[REFUSED] + 1
    end
    return granted
end

-- Called by NGINX's module nginx_upstream_module, which passes the whole request. Session and resource are its arguments.
function check_request(request)
    local args = type(request) == 'table' and request.args or {}
    return check_access(args.session, args.resource)
end

bakeoff = {}

function bakeoff.counts()
    return counts[GRANTED], counts[REFUSED], counts[SINCE]
end

-- Grants the sessions from one number up to another, exclusive, all resources with this prefix.
function bakeoff.make_sessions(from, to, resources)
    box.begin()
    for number = from, to - 1 do
        box.space.sessions:replace({string.format('session-%d', number), resources})
    end
    box.commit()
end

function bakeoff.forget_sessions()
    box.space.sessions:truncate()
end

-- Returns the keys of a directory, whose name ends in `/`.
function bakeoff.names(directory)
    local names = {}
    for _, tuple in box.space.kv:pairs({directory}, {iterator = 'GE'}) do
        local key = tuple[1]
        if key:sub(1, #directory) ~= directory then
            break
        end
        names[#names + 1] = key
    end
    return names
end

function bakeoff.clear()
    box.space.kv:truncate()
    box.space.sessions:truncate()
end

-- Returns the number of tuples, and a sum over them that does not depend on their order.
function bakeoff.sum()
    local count, sum = 0, 0
    for _, space in ipairs({box.space.kv, box.space.sessions}) do
        for _, tuple in space:pairs() do
            count = count + 1
            -- Whole numbers are exact up to 2^53.
            sum = (sum + digest.crc32(tuple[1] .. ' ' .. tuple[2])) % 2^52
            if count % 1000 == 0 then
                fiber.yield()
            end
        end
    end
    return count, sum
end

-- Returns its version and status, the number of nodes with which it replicates in both directions, its
-- message about the others, and the number of writes that it has of each node.
function bakeoff.look()
    local info = box.info
    local both, trouble, came = 0, '', {}
    for id = 1, config.nodes do
        came[id] = info.vclock[id] or 0
    end
    for id, other in pairs(info.replication) do
        if id ~= info.id then
            local from, to = other.upstream or {}, other.downstream or {}
            if from.status == 'follow' and to.status == 'follow' then
                both = both + 1
            else
                trouble = string.format('it is %s from node %d and %s to it; %s',
                    from.status or 'not yet copied', id, to.status or 'not yet copied',
                    from.message or to.message or '')
            end
        end
    end
    return info.version, info.status, both, trouble, came
end

box.cfg(config.box)

local last = 'bakeoff.look'

if config.first and not box.schema.func.exists(last) then
    local user = config.user
    -- A new table each time, because Tarantool writes into it.
    local function once(options)
        options = options or {}
        options.if_not_exists = true
        return options
    end
    box.schema.user.create(user, once({password = config.password}))
    box.schema.user.grant(user, 'replication', nil, nil, once())
    -- Clients use this id. Tarantool would assign the same one.
    local kv = box.schema.space.create('kv', once({id = config.kv}))
    kv:create_index('primary', once({parts = {{1, 'string'}}}))
    box.schema.user.grant(user, 'read,write', 'space', 'kv', once())
    local sessions = box.schema.space.create('sessions', once({id = config.kv + 1}))
    sessions:create_index('primary', once({parts = {{1, 'string'}}, type = 'hash'}))
    box.schema.user.grant(user, 'read', 'space', 'sessions', once())
    box.schema.func.create('check_access', once())
    box.schema.user.grant(user, 'execute', 'function', 'check_access', once())
    if config.guest then
        box.schema.user.grant('guest', 'read', 'space', 'sessions', once())
        box.schema.func.create('check_request', once())
        for _, name in ipairs({'check_access', 'check_request'}) do
            box.schema.user.grant('guest', 'execute', 'function', name, once())
        end
    end
    -- These functions run with the rights of their creator.
    local names = {}
    for name in pairs(bakeoff) do
        if 'bakeoff.' .. name ~= last then
            table.insert(names, 'bakeoff.' .. name)
        end
    end
    -- A node that answers a probe has completed everything above.
    table.insert(names, last)
    for _, name in ipairs(names) do
        box.schema.func.create(name, once({setuid = true}))
        box.schema.user.grant(user, 'execute', 'function', name, once())
    end
end
