-- The promises of a claim: a unit, a new place in line, or the current place of the user. Each function returns the
-- decision, and the change for `apply`. Needs records, presence, claim_batch.
--   r             the request
--   fingerprint   identifies a repetition of the request
--   quota_left    number of calls that the device has left

--   place_id   reservation id of the place on the ticket; "" = no ticket
local function queued_answer(batch, position, waiting, pace, place_id)
  return pack_queued{ position = position, queue_size = waiting, ticket_key = place_id == '' and '' or batch.input.ticket_key,
    pace = pace, presence_ms = batch.c.presence_ms, place_id = place_id }
end

-- A waiting user keeps the place and counts as seen.
local function keep_place(batch, r, fingerprint, quota_left, person, score)
  local c = batch.c
  local must_be_seen = c.presence_ms > 0
  local was_away = must_be_seen and is_away(score)
  local position = r.position or places_before(batch, was_away and person.line_no or score) + 1
  local waiting, pace = r.queue_size or c.waiting, pace_now(batch)
  -- The caller gets the ticket if they have proved to be the user, or to use the device that took the place.
  local is_holder = r.proven or (r.holder_device and
    (batch.holders[r.user] or redis.call('HGET', batch.keys.holders, r.user)) ==
      pack_holder{ line_no = person.line_no, device = r.holder_device })
  local place_id = is_holder and person.reservation_id or ''
  local answer = fingerprint .. queued_answer(batch, position, waiting, pace, place_id)
  -- A full journal does not reject the request, because the place is promised already. Then only Redis has the record.
  local journaled = not journal_is_full(batch)
  local change = { answer = answer, line_no = was_away and person.line_no, seen = must_be_seen }
  if journaled then change.promise = pack_answered_promise{ key = r.key, answer = answer } end
  return { kind = 'waiting', journaled = journaled, quota_left = quota_left, position = position,
    queue_size = waiting, pace = pace ~= '' and tonumber(pace) or nil, presence_ms = c.presence_ms,
    place_id = place_id ~= '' and place_id or nil }, change
end

-- Adds the metadata of a request to its promise. JSON has no tab and no line break, which separate values and promises.
local function with_metadata(promise, r)
  return r.metadata and promise .. '\t' .. r.metadata or promise
end

-- Reserves one or more units.
--   slot, code   number of the allowance; number of the code as text, "" = none
--   stacking     how the reservation combines with others on its order, "" = it takes no part
local function give_units(batch, r, fingerprint, quota_left, person, slot, code, reservation_id, stacking)
  local c, input, units = batch.c, batch.input, number_of(batch, r.qty)
  assert(c.unlimited or (c.free >= units and c.free + c.held + c.redeemed + c.burned == c.total), 'conservation is broken')
  local order_id, due, slot_text = r.order or order_id_of(reservation_id), batch.due, text_of(batch, slot)
  local state = batch.pays and 'reserved' or 'redeemed'
  local answer = fingerprint .. pack_completed{ reservation_id = reservation_id, order_id = order_id, due = due,
    ticket_key = input.ticket_key, durability = batch.durability, code = code, terms = batch.version }
  local promise = pack_reserved_promise{ reservation = reservation_id, user = r.user, order = r.order or '', qty = r.qty,
    slot = slot_text, code = code, key = r.key, request = r.request or '', device = r.device or '', trace = r.trace or '',
    stacking = stacking }
  local change = {
    answer = answer, units = units, reservation_id = reservation_id, promise = with_metadata(promise, r),
    reservation = pack_reservation{ state = state, user = r.user, qty = r.qty, slot = slot_text, due = due, line_no = '0',
      order_id = order_id, code = code },
    person = pack_person{ state = 'held', slots = with_slot(person.slots, slot_text), line_no = '0', qty = r.qty,
      reservation_id = reservation_id, order_id = '', code = code },
  }
  -- Most decisions are of this kind, and cjson takes longer than this concatenation.
  return '{"kind":"reserved","quota_left":' .. text_of(batch, quota_left) .. ',"slot":' .. slot_text ..
    (code ~= '' and ',"code":' .. code or '') ..
    (stacking ~= '' and ',"stacking":' .. cjson.encode(stacking) or '') .. '}', change
end

-- Adds the user to the end of the line. In a bucket the caller has drawn the line number, and knows the position among
-- all buckets.
--   code   number of the user's code, as text; "" = none
local function join_line(batch, r, fingerprint, quota_left, person, code, reservation_id, stacking)
  local c = batch.c
  local position, pace = r.position or present_now(batch) + 1, pace_now(batch)
  local waiting, line_no = r.queue_size or c.waiting + 1, r.line_no or c.last_line_no + 1
  local line_text = string.format('%d', line_no)
  local answer = fingerprint .. queued_answer(batch, position, waiting, pace, reservation_id)
  local order_id = r.order or ''
  local promise = pack_queued_promise{ reservation = reservation_id, user = r.user, order = order_id, qty = r.qty,
    line_no = line_text, code = code, key = r.key, answer = answer, device = r.device or '', trace = r.trace or '',
    stacking = stacking }
  local change = {
    answer = answer, joins = true, line_no = line_no, seen = c.presence_ms > 0, promise = with_metadata(promise, r),
    person = pack_person{ state = 'queued', slots = person.slots, line_no = line_text, qty = r.qty,
      reservation_id = reservation_id, order_id = order_id, code = code },
    holder = r.holder_device and pack_holder{ line_no = line_text, device = r.holder_device },
  }
  return { kind = 'queued', quota_left = quota_left, position = position, queue_size = waiting,
    line_no = line_no, pace = pace ~= '' and tonumber(pace) or nil, presence_ms = c.presence_ms,
    stacking = stacking ~= '' and stacking or nil }, change
end
