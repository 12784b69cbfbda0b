-- The journal entry of a new reservation. Checkout and promotion write the same fields in the same order: the stream
-- stores the names of neighbours that share them only once.
--   terms: version of the campaign's terms that it was made under
--   key, answer: the idempotency key and the remembered answer, so that both survive Redis ("" for a promotion)
local function journal_reserved(journal, generation, no, reservation_id, r, terms, now, key, answer, device, trace)
  return redis.call('XADD', journal, generation .. '-*', 'kind', 'reserved', 'no', no, 'reservation', reservation_id, 'user', r.user,
    'order', r.order_id, 'qty', r.qty, 'slot', r.slot, 'at', now, 'due', r.due, 'line', r.line_no, 'state', r.state,
    'code', r.code, 'terms', terms, 'key', key, 'answer', answer, 'device', device, 'trace', trace)
end
