-- The fields of two kinds of journal entries that several scripts append. `append` takes them as arguments.

-- A new reservation. Checkout and promotion use the same fields in the same order: the stream stores the names of
-- neighbours that share them only once.
--   terms: version of the campaign's terms that the reservation was made under
--   key, answer: the idempotency key and the remembered answer, so that both survive Redis ("" for a promotion)
local function append_reserved(append, no, reservation_id, r, terms, now, key, answer, device, trace)
  return append('kind', 'reserved', 'no', no, 'reservation', reservation_id, 'user', r.user,
    'order', r.order_id, 'qty', r.qty, 'slot', r.slot, 'at', now, 'due', r.due, 'line', r.line_no, 'state', r.state,
    'code', r.code, 'terms', terms, 'key', key, 'answer', answer, 'device', device, 'trace', trace)
end

-- An answer that no other entry carries, so that a Redis that lost it gives the same one again.
local function append_answered(append, no, now, key, answer)
  return append('kind', 'answered', 'no', no, 'at', now, 'key', key, 'answer', answer)
end
