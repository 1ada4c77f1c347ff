-- What each node runs: the functions that clients call, its settings (config.lua, beside it), and on
-- the first node, once, the spaces and the user.
--
-- Whatever follows the first start must stand here as well: a restart runs this file again.

local digest = require('digest')
local ffi = require('ffi')
local fiber = require('fiber')
local fio = require('fio')
local config = dofile('config.lua')

ffi.cdef('void *mmap(void *addr, size_t length, int prot, int flags, int fd, int64_t offset);')

-- Three numbers in a file that is mapped into memory. To count there costs no more than anywhere else,
-- and they are there, as they last were, when this process has been killed.
local function counters()
    local file = fio.open('checks', {'O_RDWR', 'O_CREAT'}, tonumber('600', 8))
    file:truncate(24)
    -- To read and to write, shared with the file.
    local page = ffi.C.mmap(nil, 24, 3, 1, file.fh, 0)
    assert(ffi.cast('intptr_t', page) ~= -1, 'the file of counts cannot be mapped')
    return ffi.cast('double *', page)
end

-- Checks since this process began, which is what tells counts of one life from those of another.
local GRANTED, REFUSED, SINCE = 0, 1, 2
local counts = counters()
counts[GRANTED], counts[REFUSED], counts[SINCE] = 0, 0, tonumber(fiber.time64())

-- Whether a session may have a resource. What is no text has no session and may have nothing.
local function may(session, resource)
    if type(session) ~= 'string' or type(resource) ~= 'string' then
        return false
    end
    local found = box.space.sessions:get(session)
    return found ~= nil and resource:sub(1, #found[2]) == found[2]
end

-- What a gate asks before each request. Nothing between the answer and its count yields.
function check_access(session, resource)
    local granted = may(session, resource)
    if granted then
        counts[GRANTED] = counts[GRANTED] + 1
    else
        counts[REFUSED] = counts[REFUSED] + 1
    end
    return granted
end

bakeoff = {}

function bakeoff.counts()
    return counts[GRANTED], counts[REFUSED], counts[SINCE]
end

-- Allows the sessions from one number to before another all resources that begin so.
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

-- The keys of a directory, whose name ends in `/`.
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

-- How many tuples it has, and a sum over them that does not depend on their order.
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

-- Its version, what state it is in, how many others it follows and is followed by, what it says
-- of those that it does not, and how far it has come with what each of them wrote.
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
    -- A table anew each time, for Tarantool writes into it.
    local function once(options)
        options = options or {}
        options.if_not_exists = true
        return options
    end
    box.schema.user.create(user, once({password = config.password}))
    box.schema.user.grant(user, 'replication', nil, nil, once())
    -- Its number is the one that clients go by. Tarantool would number the next one the same.
    local kv = box.schema.space.create('kv', once({id = config.kv}))
    kv:create_index('primary', once({parts = {{1, 'string'}}}))
    box.schema.user.grant(user, 'read,write', 'space', 'kv', once())
    local sessions = box.schema.space.create('sessions', once({id = config.kv + 1}))
    sessions:create_index('primary', once({parts = {{1, 'string'}}, type = 'hash'}))
    box.schema.user.grant(user, 'read', 'space', 'sessions', once())
    box.schema.func.create('check_access', once())
    box.schema.user.grant(user, 'execute', 'function', 'check_access', once())
    -- These are done with the rights of who made them.
    local names = {}
    for name in pairs(bakeoff) do
        if 'bakeoff.' .. name ~= last then
            table.insert(names, 'bakeoff.' .. name)
        end
    end
    -- A node that can be asked how it is has all the others.
    table.insert(names, last)
    for _, name in ipairs(names) do
        box.schema.func.create(name, once({setuid = true}))
        box.schema.user.grant(user, 'execute', 'function', name, once())
    end
end
