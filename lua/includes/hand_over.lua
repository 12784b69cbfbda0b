-- Gives what is free to those who wait: the promotion arrow. Needs clock, records, campaign, codes, journal, pace, presence.
--   keys: {campaign, people, reservations, deadlines, line, presence, codes, journal, news}
-- Whoever came with a code of his own has it already; in a pool the others get the next one.
-- Journals `reserved` with the line number for each. Publishes `promoted` (or `redeemed` when nothing is to be paid).

-- Those who are looked at and are not there, in one call: about 2 ms of Redis. The sweep goes on with the rest.
local most_passed_over = 200

local function waiting_person(keys, user)
  local person = unpack_person(redis.call('HGET', keys.people, user))
  assert(person.state == 'queued', 'somebody in the line does not wait')
  return person
end

-- Makes somebody's place a reservation. False when there is no code for him.
local function promote_one(c, keys, now, user, person)
  local code = person.code
  if code == '' and c.type == 'pool' then code = next_code(keys.campaign, keys.codes, c) end
  if not code then return false end

  local slot = free_slot(person.slots, c.per_user_limit)
  assert(slot, 'somebody in the line has used his limit')
  local pays = c.hold_ms > 0
  local reservation = {
    state = pays and 'reserved' or 'redeemed', user = user, qty = person.qty, slot = slot,
    due = pays and now + c.hold_ms or 0, line_no = person.line_no,
    order_id = person.order_id ~= '' and person.order_id or order_id_of(person.reservation_id),
    code = code,
  }
  if code ~= '' then use_code(keys.codes, code) end
  redis.call('ZREM', keys.line, user)
  redis.call('ZREM', keys.presence, user)
  redis.call('HSET', keys.reservations, person.reservation_id, pack_reservation(reservation))
  if pays then redis.call('ZADD', keys.deadlines, reservation.due, person.reservation_id) end
  person.state, person.code = 'held', code
  person.slots = with_slot(person.slots, slot)
  redis.call('HSET', keys.people, user, pack_person(person))
  c.waiting = c.waiting - 1
  if not c.unlimited then c.free = c.free - person.qty end
  if pays then c.held = c.held + person.qty else c.redeemed = c.redeemed + person.qty end
  journal_reserved(keys.journal, keys.generation, c.no, person.reservation_id, reservation, c.version, now, '', '', '', '')
  redis.call('PUBLISH', keys.news, (pays and 'promoted|' or 'redeemed|') .. user .. '|' .. person.reservation_id .. '|' ..
    reservation.order_id .. '|' .. reservation.due)
  return true
end

-- Serves the head of the line as long as it can be served, at most `limit` people. Somebody who wants more than is free
-- stops it; `tend_line` says for how long he may.
local function hand_over(c, keys, now, limit)
  if c.waiting == 0 or phase_of(c, now) ~= 'open' then return 0 end
  local promoted, passed_over = 0, 0
  while promoted < limit and passed_over < most_passed_over and c.waiting > 0 and (c.unlimited or c.free > 0) do
    local user = head_of(keys.line)
    -- Nobody else is there; without presence that would be a broken invariant, which the audit of the tests finds.
    if not user then break end
    if is_there(c, keys, user, now) then
      local person = waiting_person(keys, user)
      if not c.unlimited and person.qty > c.free then break end
      if not promote_one(c, keys, now, user, person) then break end
      promoted = promoted + 1
    else
      passed_over = passed_over + 1
    end
  end
  if promoted > 0 then count_pace(keys.campaign, now, promoted) end
  return promoted
end
