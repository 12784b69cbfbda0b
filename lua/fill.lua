-- Writes or removes records while Redis is not in service. Readers ignore a campaign until `load_campaign` has written
-- its hash, so a worker can write the records in batches.
--
-- KEYS filler, epoch, filled_keys... (at most 1000)
-- ARGV
--   token         of begin_fill
--   action        remove: removes the keys
--                 reservations (keys: reservations, deadlines): reservation_id record due_ms, "" = no deadline
--                 people (keys: people, line, presence): user record line_no ("" = not in line) seen_ms ("" = none)
--                 holders (keys: holders): user, place and device
--                 codes (keys: codes): number of a used code, or of one that a bucket has given to another one
--                 homes (keys: codes): bucket buckets codes: the codes of other buckets, by their homes, before any other
--                 gained_codes (keys: codes): number of a code that a bucket has got from another one, after `homes`
--                 answers (keys: idempotency of each): answer ttl_ms; records of other campaigns stay
--                 payments (keys: payments): reservation_id references
--                 orders (keys: order of each): reservation_id stacking ttl_ms
--                 numbers (keys: directory): number of a campaign that the directory no longer has
-- EACH (at most 10000)
--   value         fields of the records, as listed under the action
-- REPLY
--   filled
--   fenced        another worker fills Redis, or Redis is in service; nothing is written
-- JOURNALS nothing: Postgres has all records

--#include fence
--#include orders
--#include bucket_codes
--#include responses

if not may_fill(filler_key, epoch_key, token) then return { 'fenced' } end
local bits = {}
if action == 'codes' or action == 'gained_codes' then
  for _, code in ipairs(each_value) do table.insert(bits, tonumber(code) - 1) end
end
local used, offset, pattern = action == 'gained_codes' and 0 or 1, 0, ''
if action == 'homes' then
  bits, offset, pattern = foreign_codes(0, tonumber(each_value[3]), tonumber(each_value[1]), tonumber(each_value[2]))
end
local widths = { reservations = 3, people = 4, holders = 2, answers = 2, orders = 3, payments = 2 }
local rows, width = {}, widths[action]
if width then
  for i = 1, #each_value, width do table.insert(rows, { unpack(each_value, i, i + width - 1) }) end
end

if action == 'answers' then
  local known = redis.call('MGET', unpack(filled_keys))
  for i, row in ipairs(rows) do
    local own = string.match(row[1], '^restock|%d+|') or string.match(row[1], '^%d+|')
    local others = own and known[i] and other_records(known[i], own) or ''
    if others ~= '' then
      row[1] = others .. '\n' .. row[1]
      row[2] = string.format('%d', math.max(tonumber(row[2]), redis.call('PTTL', filled_keys[i])))
    end
  end
end

-- Several reservations may be on one order.
local orders = {}
if action == 'orders' then
  for i, row in ipairs(rows) do
    local claims = orders[filled_keys[i]] or claims_on(filled_keys[i])
    if not claimed_stacking(claims, row[1]) then table.insert(claims, { reservation_id = row[1], stacking = row[2] }) end
    claims.ttl_ms = math.max(claims.ttl_ms or 0, tonumber(row[3]))
    orders[filled_keys[i]] = claims
  end
  for key, claims in pairs(orders) do orders[key] = { text = packed_claims(claims), ttl_ms = claims.ttl_ms } end
end

redis.call('PEXPIRE', filler_key, 60000)
if action == 'remove' then redis.call('UNLINK', unpack(filled_keys)) end
if action == 'reservations' then
  for _, row in ipairs(rows) do
    redis.call('HSET', filled_keys[1], row[1], row[2])
    if row[3] ~= '' then redis.call('ZADD', filled_keys[2], row[3], row[1]) end
  end
end
if action == 'people' then
  for _, row in ipairs(rows) do
    redis.call('HSET', filled_keys[1], row[1], row[2])
    if row[3] ~= '' then redis.call('ZADD', filled_keys[2], row[3], row[1]) end
    if row[4] ~= '' then redis.call('ZADD', filled_keys[3], row[4], row[1]) end
  end
end
if action == 'holders' then
  for _, row in ipairs(rows) do redis.call('HSET', filled_keys[1], row[1], row[2]) end
end
for _, bit in ipairs(bits) do redis.call('SETBIT', filled_keys[1], bit, used) end
if pattern ~= '' then redis.call('SETRANGE', filled_keys[1], offset, pattern) end
if action == 'answers' then
  for i, row in ipairs(rows) do redis.call('SET', filled_keys[i], row[1], 'PX', row[2]) end
end
if action == 'payments' then
  for _, row in ipairs(rows) do redis.call('HSET', filled_keys[1], row[1], row[2]) end
end
if action == 'numbers' then
  for _, no in ipairs(each_value) do redis.call('HDEL', filled_keys[1], no) end
end
for key, order in pairs(orders) do redis.call('SET', key, order.text, 'PX', order.ttl_ms) end
return { 'filled' }
