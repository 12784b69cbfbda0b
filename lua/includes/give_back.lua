-- Ends a held or redeemed reservation and returns its units: to the head of the line, else to stock. Needs records,
-- campaign, codes, hand_over.
--   ending: released, expired, refunded, voided; entry: further fields of the journal entry, as a flat list
-- The user's allowance and the code he used are free again: a failed payment must not lock a customer out.
local function give_back(c, keys, now, reservation_id, reservation, ending, entry)
  local was_held = reservation.state == 'reserved'
  reservation.state = ending
  redis.call('HSET', keys.reservations, reservation_id, pack_reservation(reservation))
  redis.call('ZREM', keys.deadlines, reservation_id)
  free_code(keys.campaign, keys.codes, c, reservation.code)
  local person = unpack_person(redis.call('HGET', keys.people, reservation.user))
  person.slots = without_slot(person.slots, reservation.slot)
  redis.call('HSET', keys.people, reservation.user, pack_person(person))
  if was_held then c.held = c.held - reservation.qty else c.redeemed = c.redeemed - reservation.qty end
  if not c.unlimited then c.free = c.free + reservation.qty end
  redis.call('XADD', keys.journal, keys.generation .. '-*', 'kind', ending, 'no', c.no, 'reservation', reservation_id, 'at', now,
    unpack(entry))
  if ending == 'released' or ending == 'expired' then
    redis.call('PUBLISH', keys.news, ending .. '|' .. reservation.user .. '|' .. reservation_id .. '|' ..
      reservation.order_id .. '|' .. reservation.due)
  end
  return hand_over(c, keys, now, reservation.qty)
end
