-- Decides checkouts: nothing to RESERVED, REDEEMED or QUEUED, or a rejection. Decides several requests of one campaign
-- in the given order, each as if it were the only one. The campaign is read and written once for all of them.
--
-- Each request takes three decisions: `replay` (the key has a response), `admit` (token, device, sale window) and
-- `claim` (a unit, a place in line or a rejection). They only read. `apply` adds the decision to the batch, where the
-- next request reads it. At the end the script writes the batch to Redis. A rejected request uses up quota too, once
-- its device is counted: all but `replayed`, `archived`, `key_reused`, `attestation_…` and `rate_limited` do.
--
-- The first request_keys are three for each request: its idempotency key, the key of its order and the key of its
-- device. Keys that requests refer to by position follow.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, holders, epoch, request_keys... (at most 256)
-- ARGV
--   input:json      as in INPUT
-- INPUT
--   requests        at least 1, at most 64, as in REQUEST
--   key_ttl_ms      time for which an idempotency record is kept, as text
--   ticket_key      id of the key that signs the tickets, so that a replay signs the same ticket
--   journal_limit   maximum number of promises in the journal
--   device_quota device_window_ms   checkouts of a device in any window, and its length
--   token_life_ms token_skew_ms   validity of a token, and allowed difference between the clocks of caller and Redis
--   replicated      whether the caller waits for replicas before it responds
--   order_ttl_ms    time for which claims on an order are kept, as text
--   buckets         number of buckets of the campaign; none = it is not divided
-- REQUEST
--   user            the user who checks out
--   qty             units wanted, integer >= 1, as text
--   prefix          28 characters of a UUIDv7; the campaign's number completes it to the reservation's id
--   order           id of the order; none = made from the reservation id
--   token_expires_at   Unix seconds as text; the caller has checked the signature; none = no token
--   key             idempotency key
--   once_key        position of the one-time token's key in request_keys, from 1
--   has_quota       whether the device's quota counts the request
--   device          device fingerprint, only recorded; none = unknown
--   trace           traceparent of the request
--   metadata        JSON of an object of texts, for the journal; none = no metadata
--   request         further fields of the fingerprint, of a redemption by code; none = a checkout
--   code            number of the code; 0 = the campaign's only code, none = no code
--   terms           version of the terms whose audience the caller has checked; negative = they exclude the user;
--                   none = not checked
--   once_expires_at once_issued_at   ms, of the one-time token; none = no token
--   proven          whether the caller has proved to be the user
--   holder_device   device of a genuine token, unless its fingerprint was derived
--   new_keys        promises that the caller may still get under new keys, beyond the user's limit; may be negative;
--                   none = no limit
--   line_no position queue_size   of a user in a bucket: the line number that was drawn for them, none = not drawn, and
--                   the position and the size of the line of all buckets, none = not known
-- REPLY
--   decided decisions last_id entry...     JSON of an object: no, at, due, terms, durable, and `replies`, one DECISION each;
--                                 due: ms, of every unit; 0 = nothing to pay, redeemed at once;
--                                 velocity: outcome (paused, alerted), users and usual, if far more users than usual
--                                 got a promise in a few seconds; none = not, or it was reported within a minute;
--                                 last_id: journal id of the last promise, "" = no promise; entry: of a pause, as JSON
--                                 (lua/README.md)
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- DECISION
--   reserved quota_left slot code stacking
--                                     next promise of this call; quota_left: of the device; code: number of its code;
--                                     stacking: how it combines with others on its order
--   queued quota_left position queue_size line_no pace presence_ms stacking   next promise of this call;
--                                     position counts from 1; pace: ms between two promotions;
--                                     presence_ms: 0 = presence does not matter
--   waiting journaled quota_left position queue_size pace presence_ms place_id
--                                     already in the line; journaled: whether it is a promise of this call;
--                                     place_id: reservation id of the place, none = the caller gets no ticket
--   place_limited                     the caller got too many promises lately (new_keys); not recorded
--   replayed answer                   the first response to this key, from its idempotency record
--   archived pass                     the campaign is archived; its idempotency records are in Postgres
--   key_reused                        the user has used the key for another request
--   attestation_missing | attestation_expired | attestation_future
--   rate_limited retry_ms             the device's quota is used up
--   journal_full                      the backlog has reached journal_limit
--   not_found | paused | ended
--   not_started starts_at_ms
--   qty_above_max max_qty
--   limit_reached                     the user has reached the limit for this campaign
--   sold_out | line_full
--   audience_mismatch
--   terms_changed version             the caller has checked the audience of other terms, or none
--   code_needed                       every unit of this campaign needs a code
--   code_used
--   token_missing | token_expired | token_used    the one-time token
--   not_combinable reservations       these reservations on the same order exclude this one
--   short | empty                     the bucket has too few units, others may have some; empty: there is no line
--   draw line_no                      the caller must draw a line_no; given: the user waits with this one, and the
--                                     caller must pass its position and no line_no
--   failed reason                     a record that it needs is malformed; other requests are not affected
-- JOURNALS reserved, queued, answered, status (a pause, after the promises)

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include pace
--#include presence
--#include orders
--#include journal_tail
--#include news
--#include velocity
--#include responses
--#include claim_batch
--#include claim_promises

assert(#input.requests <= most_in_entry, 'reserve takes at most 64 requests')

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local batch = new_batch(c, input, { campaign = campaign_key, line = line_key, codes = codes_key, journal = journal_key,
  holders = holders_key }, request_keys, now_ms())

-- First decision: replays the response to an idempotency key. Returns nil for a new key.
local function replay(batch, r, fingerprint)
  local remembered = value_of(batch, r.keys)
  if remembered then
    remembered = own_record(remembered, batch.no .. '|')
    if string.sub(remembered, 1, #fingerprint) ~= fingerprint then return { kind = 'key_reused' } end
    local answer = string.sub(remembered, #fingerprint + 1)
    -- The record of a redemption begins like that of a checkout and has further fields.
    if not r.request and string.sub(answer, 1, 2) == 'R|' then return { kind = 'key_reused' } end
    return { kind = 'replayed', answer = answer }
  end
  -- An archived campaign can only replay.
  return batch.c.archived and { kind = 'archived', pass = batch.c.archived }
end

-- Second decision: checks token, device and campaign. Returns the rejection or false, the number of calls that the
-- device has left, and the times of its calls.
local function admit(batch, r)
  local c, input, phase, times, left = batch.c, batch.input, batch.phase, nil, 0
  if r.token_expires_at then
    local age_ms = batch.now - number_of(batch, r.token_expires_at) * 1000
    if age_ms > input.token_skew_ms then return { kind = 'attestation_expired' } end
    if age_ms < -(input.token_life_ms + input.token_skew_ms) then return { kind = 'attestation_future' } end
  end
  if r.has_quota then
    times, left = count_call(batch, r)
    if not times then return { kind = 'rate_limited', retry_ms = left } end
  end
  local refusal = false
  if phase == 'draft' then refusal = { kind = 'not_found' }
  elseif phase == 'not_started' then refusal = { kind = 'not_started', starts_at_ms = c.starts_at }
  elseif phase ~= 'open' then refusal = { kind = phase }
  elseif number_of(batch, r.qty) > c.max_qty then refusal = { kind = 'qty_above_max', max_qty = c.max_qty }
  elseif c.type == 'unique' and not r.code then refusal = { kind = 'code_needed' }
  elseif r.new_keys and r.new_keys + c.per_user_limit <= 0 then refusal = { kind = 'place_limited' } end
  return refusal, left, times
end

-- Returns the rejection when the terms of the campaign exclude the user, else nil. The audience of a waiting user was
-- checked when the user joined the line.
local function exclusion(batch, r)
  local c, terms = batch.c, r.terms or 0
  if terms ~= c.version and -terms ~= c.version and (terms ~= 0 or not c.open_to_all) then
    return { kind = 'terms_changed', version = c.version }
  end
  return terms < 0 and { kind = 'audience_mismatch' } or nil
end

-- Returns the rejection when the one-time token is invalid, else nil. Postgres does not have the used tokens. So after
-- a refill, the older tokens of users with a record have expired: only these users can have used one.
local function token_problem(batch, r)
  if not r.once_expires_at then return { kind = 'token_missing' } end
  local restored_at = batch.people[r.user] and redis.call('HGET', batch.keys.campaign, 'restored_at')
  if batch.now >= r.once_expires_at or (restored_at and r.once_issued_at <= tonumber(restored_at)) then
    return { kind = 'token_expired' }
  end
  return value_of(batch, r.once_key) and { kind = 'token_used' } or nil
end

-- Returns the claims on the order including this one; or nil and the rejection when others on the order exclude it.
local function claims_with(batch, r, reservation_id, stacking)
  -- A new order has no claims.
  local claims = r.order and claims_in(value_of(batch, r.keys + 1)) or {}
  local against = claims_against(claims, reservation_id, stacking)
  if against[1] then return nil, { kind = 'not_combinable', reservations = against } end
  return with_claim(claims, reservation_id, stacking)
end

-- Returns the code of the unit that the user gets, "" = none; nil when the user gets no unit. No barging: while a
-- present user waits, free units are reserved for the line, and so are the codes of an unlimited pool.
local function code_of_unit(batch, r, code)
  local c, from_pool = batch.c, code == '' and batch.c.type == 'pool'
  if c.bucket and is_sealed(c) then return nil end
  if not c.unlimited and c.free < number_of(batch, r.qty) then return nil end
  if (not c.unlimited or from_pool) and c.waiting > 0 and (c.presence_ms == 0 or present_now(batch) > 0) then return nil end
  if from_pool then return next_code(batch.keys.codes, c, batch.codes) end
  return code
end

-- Returns the places in line that a bucket has of `line_max`, whose remainder goes to the first buckets. The number of
-- the bucket is in bits 23 to 26 of the number of the campaign.
local function share_of_line(c, buckets)
  local bucket = math.floor(c.no / 2 ^ 23) % 16
  return math.floor((c.line_max + buckets - 1 - bucket) / buckets)
end

-- Decides about a user for whom the bucket has no unit. Returns the decision, nil = the user joins the line. These
-- decisions are not final: the caller seals the buckets, fetches units or draws a number, and calls again.
local function decision_without_unit(batch, r)
  local c = batch.c
  if c.bucket == 'open' and c.line_enabled then return { kind = 'short' } end
  if c.bucket == 'open' then return { kind = 'empty' } end
  if not c.line_enabled or c.bucket == 'spent' then return { kind = 'sold_out' } end
  if c.waiting >= share_of_line(c, batch.input.buckets) then return { kind = 'line_full' } end
  if not r.line_no then return { kind = 'draw' } end
  return nil
end

-- Third decision: the current place of the user, a unit or a new place; else a rejection. Returns the decision, and the
-- change of a promise.
local function claim(batch, r, fingerprint, quota_left)
  local c, text = batch.c, batch.people[r.user]
  -- The caller has not learned yet that the campaign is divided, so this may be another bucket than that of the user.
  if c.bucket and not batch.input.buckets then return { kind = 'journal_full' } end
  local person = text and unpack_person(text) or batch.new_person
  local score = person.state == 'queued' and (batch.line[r.user] or redis.call('ZSCORE', batch.keys.line, r.user))
  -- A record that is `queued` without a place in the line means that the place was closed.
  -- A position that was computed for a drawn number is not that of the place, which an earlier request got.
  if score and c.bucket and (r.line_no or not r.position) then return { kind = 'draw', line_no = person.line_no } end
  if score then return keep_place(batch, r, fingerprint, quota_left, person, score) end

  local refusal = exclusion(batch, r)
  if refusal then return refusal end
  local slot = free_slot(person.slots, c.per_user_limit)
  if not slot then return { kind = 'limit_reached' } end
  local code = r.code and r.code > 0 and string.format('%d', r.code) or ''
  if code ~= '' and code_is_used(batch.keys.codes, code, batch.codes) then return { kind = 'code_used' } end
  refusal = c.once and token_problem(batch, r)
  if refusal then return refusal end
  local reservation_id, order_claims = r.prefix .. batch.no_hex, nil
  local stacking = takes_part(c, not r.order) and c.stacking or ''
  if stacking ~= '' then
    order_claims, refusal = claims_with(batch, r, reservation_id, stacking)
    if refusal then return refusal end
  end
  local given = code_of_unit(batch, r, code)
  if not given and c.bucket then
    refusal = decision_without_unit(batch, r)
    if refusal then return refusal end
  elseif not given then
    if not c.line_enabled then return { kind = 'sold_out' } end
    -- No unit can return: `maintain_line` has found that all units are used up.
    if c.spent and c.free + c.held == 0 then return { kind = 'sold_out' } end
    if c.waiting >= c.line_max then return { kind = 'line_full' } end
  end
  if journal_is_full(batch) then return { kind = 'journal_full' } end

  local decision, change
  if given then
    decision, change = give_units(batch, r, fingerprint, quota_left, person, slot, given, reservation_id, stacking)
  else
    decision, change = join_line(batch, r, fingerprint, quota_left, person, code, reservation_id, stacking)
  end
  local used = given or code
  if used ~= '' then change.used_code = tonumber(used) end
  if c.once then change.once_left_ms = string.format('%d', r.once_expires_at - batch.now) end
  if order_claims then change.order_claims = order_claims end
  change.is_first = not text
  return decision, change
end

local not_final = { short = true, empty = true, draw = true }

-- Decides one request. Only reads. Returns the decision, and the arguments of `apply`.
local function decide(batch, r)
  local fingerprint = pack_fingerprint{ no = batch.no, qty = r.qty, user = r.user, request = r.request or '' }
  -- Replays before any check whose result may have changed since the first call, such as the age of the token.
  local decision = replay(batch, r, fingerprint)
  if decision then return decision end
  -- A redemption by code needs no device.
  if batch.c.attest and not r.token_expires_at and not r.request then return { kind = 'attestation_missing' } end
  local refusal, quota_left, device_calls = admit(batch, r)
  if refusal then return refusal, nil, device_calls end
  local change
  decision, change = claim(batch, r, fingerprint, quota_left)
  -- The caller repeats it, which must not count twice.
  if batch.c.bucket and not change and not_final[decision.kind] then return decision end
  return decision, change, device_calls
end

-- Read.
local requests, known, users, values = input.requests, batch.values, {}, redis.call('MGET', unpack(request_keys))
for i = 1, #request_keys do known[request_keys[i]] = values[i] end
for i = 1, #requests do
  users[i], requests[i].keys = requests[i].user, 3 * i - 2
end
local people, records = batch.people, redis.call('HMGET', people_key, unpack(users))
for i = 1, #users do people[users[i]] = records[i] end

-- Decide.
local decisions = {}
for i = 1, #requests do
  local r = requests[i]
  local ok, decision, change, device_calls = pcall(decide, batch, r)
  if ok then apply(batch, r, change, device_calls) else decision = { kind = 'failed', reason = tostring(decision) } end
  decisions[i] = type(decision) == 'string' and decision or cjson.encode(decision)
end

-- Prepare, so that nothing can fail after the first write.
local rate_fields, verdict = nil, nil
if batch.first_promises > 0 and c.velocity ~= 'off' then
  rate_fields, verdict = count_users(c, campaign_key, c.rate, batch.now, batch.first_promises, input.buckets or 1)
end
local reply = { 'decided', '{"no":' .. batch.no .. ',"at":' .. batch.at .. ',"due":' .. batch.due .. ',"terms":' ..
  batch.version .. ',"durable":' .. (c.durable and 'true' or 'false') ..
  (verdict and ',"velocity":' .. cjson.encode(verdict) or '') .. ',"replies":[' .. table.concat(decisions, ',') .. ']}', '' }
local reservations, deadlines, changed = batch.reservations, batch.deadlines, pairs_of(batch.packed_people)
local line, presence, holders = pairs_of(batch.line, true), pairs_of(batch.presence, true), pairs_of(batch.holders)
local entry, entry_id, fields, used_bits = nil, nil, changed_counters(batch), {}
local count = #batch.promises
if count > 0 then
  entry_id = id_for(journal_key, generation, count)
  local common = pack_promises_header{ at = batch.at, due = batch.due, terms = batch.version, ticket_key = input.ticket_key,
    durability = batch.durability }
  entry = { 'no', batch.no, 'count', text_of(batch, count), 'promises', common .. '\n' .. table.concat(batch.promises, '\n') }
end
for code in pairs(batch.codes) do used_bits[#used_bits + 1] = code - 1 end
for i = 1, rate_fields and #rate_fields or 0 do fields[#fields + 1] = rate_fields[i] end
local pause = verdict and verdict.outcome == 'paused' and pause_entry(c, batch.now, verdict)
local pause_id = generation .. '-*'
local is_sharded = pause and is_sharded_channel(news_key)
if pause then
  fields[#fields + 1] = 'status'
  fields[#fields + 1] = 'paused'
end
local first_pace = batch.begins_line and new_pace(batch.now)
local device_window_ms = text_of(batch, input.device_window_ms)

-- Write, the journal first.
if entry then reply[3] = redis.call('XADD', journal_key, entry_id, unpack(entry)) end
if pause then reply[4] = cjson.encode({ redis.call('XADD', journal_key, pause_id, unpack(pause)), unpack(pause) }) end
if reservations[1] then redis.call('HSET', reservations_key, unpack(reservations)) end
if deadlines[1] then redis.call('ZADD', deadlines_key, unpack(deadlines)) end
if changed[1] then redis.call('HSET', people_key, unpack(changed)) end
if line[1] then redis.call('ZADD', line_key, unpack(line)) end
if presence[1] then redis.call('ZADD', presence_key, unpack(presence)) end
if holders[1] then redis.call('HSET', holders_key, unpack(holders)) end
if fields[1] then redis.call('HSET', campaign_key, unpack(fields)) end
if first_pace then redis.call('HSETNX', campaign_key, 'pace', first_pace) end
for _, bit in ipairs(used_bits) do redis.call('SETBIT', codes_key, bit, 1) end
for key, text in pairs(batch.answers) do redis.call('SET', key, text, 'PX', input.key_ttl_ms) end
for key, text in pairs(batch.devices) do redis.call('SET', key, text, 'PX', device_window_ms) end
for key, left_ms in pairs(batch.once) do redis.call('SET', key, 1, 'PX', left_ms) end
for key, text in pairs(batch.orders) do redis.call('SET', key, text, 'PX', input.order_ttl_ms) end
if pause then publish_news(news_key, is_sharded, 'status||paused') end
return reply
