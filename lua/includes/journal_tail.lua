-- Ids and length of the journal, counted in promises. An entry has one promise, or all promises of one call; then its
-- id is the number of the last one, and `count` is their number (shared/redis/journal-entries.ts).

-- Maximum number of promises in an entry, so that readers can bound a read.
local most_in_entry = 64

local function id_parts(id)
  local generation, n = string.match(id, '^(%d+)-(%d+)$')
  return generation, tonumber(n)
end

-- Returns the number of the first promise of an entry from XRANGE.
local function first_number(entry)
  local _, n = id_parts(entry[1])
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'count' then return n - tonumber(entry[2][i + 1]) + 1 end
  end
  return n
end

-- Returns the number of promises in the journal. Exact near `limit`. Far below it the number is a lower bound: even
-- with full entries the journal would be below the limit.
local function backlog_of(journal_key, limit)
  local entries = redis.call('XLEN', journal_key)
  if entries == 0 or entries >= limit or (entries + 1) * most_in_entry < limit then return entries end
  local first = redis.call('XRANGE', journal_key, '-', '+', 'COUNT', 1)[1]
  local first_generation = id_parts(first[1])
  local promises, before = 0, '+'
  repeat
    local last = redis.call('XREVRANGE', journal_key, before, '-', 'COUNT', 1)[1]
    local generation, n = id_parts(last[1])
    -- A later history begins with number 0, and the journal has all its entries.
    promises = promises + n + 1 - (generation == first_generation and first_number(first) or 0)
    before = '(' .. generation .. '-0'
  until generation == first_generation
  return promises
end

-- Returns the id of the last appended entry, even if it was trimmed; 0-0 before the first one.
local function last_id_of(journal_key)
  if redis.call('EXISTS', journal_key) == 0 then return '0-0' end
  local info = redis.call('XINFO', 'STREAM', journal_key)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return info[i + 1] end
  end
end

-- Returns the id of an entry with the next `count` promises.
local function id_for(journal_key, generation, count)
  if count == 1 then return generation .. '-*' end
  local last_generation, n = id_parts(last_id_of(journal_key))
  return generation .. '-' .. string.format('%d', last_generation == generation and n + count or count - 1)
end
