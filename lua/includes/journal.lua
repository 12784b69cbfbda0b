-- The fields of two kinds of journal entries, for a plan. lua/reserve.lua appends the same ones in the same order without a
-- plan: the stream stores the names of neighbours that share them only once.

-- A promotion. `terms`: version of the campaign's terms that the reservation is made under. It takes part in its order as its
-- place did, whose entry says how.
local function reserved_fields(no, reservation_id, r, terms, now)
  return 'kind', 'reserved', 'no', no, 'reservation', reservation_id, 'user', r.user,
    'order', r.order_id, 'qty', r.qty, 'slot', r.slot, 'at', now, 'due', r.due, 'line', r.line_no, 'state', r.state,
    'code', r.code, 'terms', terms, 'key', '', 'answer', '', 'device', '', 'trace', '', 'stacking', ''
end

-- An answer that no other entry carries, so that a Redis that lost it gives the same one again.
local function answered_fields(no, now, key, answer)
  return 'kind', 'answered', 'no', no, 'at', now, 'key', key, 'answer', answer
end
