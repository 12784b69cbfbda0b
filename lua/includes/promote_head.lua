-- Promotes waiting users while units are free, on a plan. Needs clock, records, campaign, codes, journal, pace,
-- presence, plan, places. A user who joined with a code keeps it. In a pool the other users get the next code. Journals
-- `reserved` with the line number for each promotion. Publishes `promoted` (`redeemed` if there is nothing to pay).

-- Maximum number of users in one call who cannot be served: about 2 ms of Redis. The sweep continues.
local most_passed_over = 200

-- Turns a place into a reservation. Returns false when no code is left.
--   absent   whether the user was not seen lately; they get a longer hold
local function promote_one(plan, user, person, slot, absent)
  local c, now = plan.c, plan.now
  local code = person.code
  if code == '' and c.type == 'pool' then code = next_code(plan.keys.codes, c, plan.codes) end
  if not code then return false end

  local pays = c.hold_ms > 0
  local hold_ms = absent and c.absent_hold_ms or c.hold_ms
  local id = person.reservation_id
  local reservation = {
    state = pays and 'reserved' or 'redeemed', user = user, qty = text_of(person.qty), slot = text_of(slot),
    due = text_of(pays and now + hold_ms or 0), line_no = tostring(person.line_no),
    order_id = person.order_id ~= '' and person.order_id or order_id_of(id),
    code = code,
  }
  use_code(plan, code)
  plan.line[user], plan.presence[user] = false, false
  plan.reservations[id] = reservation_text(reservation)
  if pays then plan.deadlines[id] = reservation.due end
  person.state, person.code = 'held', code
  person.slots = with_slot(person.slots, slot)
  plan.changed[user] = true
  c.waiting = c.waiting - 1
  if not c.unlimited then c.free = c.free - person.qty end
  if pays then c.held = c.held + person.qty else c.redeemed = c.redeemed + person.qty end
  add_entry(plan, nil, reserved_fields(text_of(c.no), id, reservation, text_of(c.version), text_of(now)))
  table.insert(plan.news, (pays and 'promoted|' or 'redeemed|') .. user .. '|' .. id .. '|' .. reservation.order_id .. '|' ..
    reservation.due .. (pays and '|' .. reservation.qty or ''))
  plan.promoted = plan.promoted + 1
  return true
end

-- Serves a user. Returns `promoted`, `closed` when the user can never be served, `stopped` when too few units
-- are free.
local function serve(plan, user, score, absent)
  local c, person = plan.c, waiting_person(plan, user)
  if not person then
    revoke_place(plan, user, score, 'closed', 'not_waiting')
    return 'closed'
  end
  local slot = free_slot(person.slots, c.per_user_limit)
  if not slot then
    revoke_place(plan, user, score, 'closed', 'limit_reached')
    return 'closed'
  end
  if not c.unlimited and person.qty > c.free then return 'stopped' end
  return promote_one(plan, user, person, slot, absent) and 'promoted' or 'stopped'
end

-- Serves the head of the line while this is possible, at most `limit` users. A user who needs more units than are free
-- blocks the line; `maintain_line` decides for how long. Returns the numbers of promoted users and of closed places.
-- The line of a campaign is in all of its buckets, so a bucket promotes only up to the line number `plan.up_to`.
local function promote_head(plan, limit)
  local c = plan.c
  if c.waiting == 0 or phase_of(c, plan.now) ~= 'open' or (c.bucket and not plan.up_to) then return 0, 0 end
  plan.ahead = limit
  local promoted, closed, passed_over = 0, 0, 0
  while promoted < limit and closed + passed_over < most_passed_over and c.waiting > 0 and (c.unlimited or c.free > 0) do
    local user, score = head_of(plan)
    if not user or (plan.up_to and tonumber(score) > plan.up_to) then break end
    local may_be_served, absent = check_presence(plan, user, score)
    if may_be_served then
      local served = serve(plan, user, score, absent)
      if served == 'stopped' then break end
      if served == 'promoted' then promoted = promoted + 1 else closed = closed + 1 end
    else
      passed_over = passed_over + 1
    end
  end
  return promoted, closed
end

-- Gives back units of a held or redeemed reservation, which keeps `keep` of them, its allowance and its code. Units
-- that are not burned go to the head of the line, else to stock.
--   keep     at least 1, less than the reservation has
--   ending   released (the reservation is held), refunded or burned
--   by       who gives them back, "" = not known
local function reduce(plan, id, reservation, keep, ending, reason, by, trace)
  local c, before = plan.c, reservation.qty
  local units, released, refunded, burned = before - keep, reduced_of(reservation)
  if ending == 'released' then
    released, c.held = released + units, c.held - units
  else
    refunded, c.redeemed = refunded + units, c.redeemed - units
  end
  if ending == 'burned' then
    burned, c.burned = burned + units, c.burned + units
  elseif not c.unlimited then
    c.free = c.free + units
  end
  reservation.qty = string.format('%d', keep)
  reservation.reduced = string.format('%d,%d,%d', released, refunded, burned)
  local packed = reservation_text(reservation)
  plan.reservations[id] = packed
  add_entry(plan, packed, 'kind', 'reduced', 'no', c.no_text, 'at', text_of(plan.now), 'reservation', id, 'before', before,
    'qty', keep, 'ending', ending, 'released', released, 'refunded', refunded, 'burned', burned, 'reason', reason,
    'by', by, 'trace', trace)
  if ending ~= 'burned' then promote_head(plan, units) end
  calm_if_back(plan)
end

-- Ends a held or redeemed reservation. Its units go to the head of the line, else to stock. The user's allowance and
-- the code are free again, so that a failed payment does not lock a customer out.
--   ending   released, expired, refunded or voided; followed by further fields of the journal entry
local function return_units(plan, id, reservation, ending, ...)
  local c, was_held = plan.c, reservation.state == 'reserved'
  reservation.state = ending
  local packed = in_state(reservation.packed, ending)
  plan.reservations[id] = packed
  plan.deadlines[id] = false
  free_code(plan, reservation.code)
  local person = person_of(plan, reservation.user)
  person.slots = without_slot(person.slots, reservation.slot)
  plan.changed[reservation.user] = true
  if was_held then c.held = c.held - reservation.qty else c.redeemed = c.redeemed - reservation.qty end
  if not c.unlimited then c.free = c.free + reservation.qty end
  add_entry(plan, packed, 'kind', ending, 'no', c.no_text, 'at', text_of(plan.now), 'reservation', id, ...)
  if ending == 'released' or ending == 'expired' then
    table.insert(plan.news, ending .. '|' .. reservation.user .. '|' .. id .. '|' .. reservation.order_id .. '|' .. reservation.due)
  end
  promote_head(plan, reservation.qty)
  calm_if_back(plan)
end
