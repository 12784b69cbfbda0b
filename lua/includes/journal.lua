-- The fields of two kinds of journal entries, for a plan. lua/reserve.lua appends them in the same order, because a
-- stream stores the field names of equal neighbours only once.

-- Returns the fields of a promotion. `terms`: version of the terms of the reservation. Its `stacking` is empty, because
-- the entry of its place has it.
local function reserved_fields(no, reservation_id, r, terms, now)
  return 'kind', 'reserved', 'no', no, 'reservation', reservation_id, 'user', r.user,
    'order', r.order_id, 'qty', r.qty, 'slot', r.slot, 'at', now, 'due', r.due, 'line', r.line_no, 'state', r.state,
    'code', r.code, 'terms', terms, 'key', '', 'answer', '', 'device', '', 'trace', '', 'stacking', ''
end

-- Returns the fields for an idempotency record that no other entry has, so that it survives a loss of Redis.
local function answered_fields(no, now, key, answer)
  return 'kind', 'answered', 'no', no, 'at', now, 'key', key, 'answer', answer
end
