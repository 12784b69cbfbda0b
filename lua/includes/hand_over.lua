-- Gives what is free to the head of the line, in its order, at most `limit` people: the promotion arrow. A person who
-- wants more than is free stops it, since the line is strict. Needs records, campaign, codes, journal.
--   keys: {campaign, people, reservations, deadlines, line, codes, journal, news}
-- Whoever came with a code of his own has it already; in a pool the others get the next one.
-- Journals `reserved` with the line number for each. Publishes `promoted` (or `redeemed` when nothing is to be paid).
local function hand_over(c, keys, now, limit)
  local promoted = 0
  if c.waiting == 0 or (c.free == 0 and not c.unlimited) or phase_of(c, now) ~= 'open' then return promoted end
  while promoted < limit and c.waiting > 0 do
    local user = redis.call('ZRANGE', keys.line, 0, 0)[1]
    assert(user, 'the line is shorter than its counter')
    local person = unpack_person(redis.call('HGET', keys.people, user))
    assert(person.state == 'queued', 'somebody in the line does not wait')
    if not c.unlimited and person.qty > c.free then return promoted end

    local code = person.code
    if code == '' and c.type == 'pool' then code = next_code(keys.campaign, keys.codes, c) end
    if not code then return promoted end

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
    redis.call('HSET', keys.reservations, person.reservation_id, pack_reservation(reservation))
    if pays then redis.call('ZADD', keys.deadlines, reservation.due, person.reservation_id) end
    person.state, person.code = 'held', code
    person.slots = with_slot(person.slots, slot)
    redis.call('HSET', keys.people, user, pack_person(person))
    c.waiting = c.waiting - 1
    if not c.unlimited then c.free = c.free - person.qty end
    if pays then c.held = c.held + person.qty else c.redeemed = c.redeemed + person.qty end
    journal_reserved(keys.journal, c.no, person.reservation_id, reservation, c.version, now, '', '', '',
      '')
    redis.call('PUBLISH', keys.news, (pays and 'promoted|' or 'redeemed|') .. user .. '|' .. person.reservation_id ..
      '|' .. reservation.order_id .. '|' .. reservation.due)
    promoted = promoted + 1
  end
  return promoted
end
