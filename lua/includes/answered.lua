-- Remembers an answer that no other entry carries; in the journal too (unless it is false), so that a Redis that lost it
-- gives the same one again.
local function remember_answer(idempotency_key, journal, generation, no, key, answer, now, ttl_ms)
  redis.call('SET', idempotency_key, answer, 'PX', ttl_ms)
  if not journal then return end
  redis.call('XADD', journal, generation .. '-*', 'kind', 'answered', 'no', no, 'at', now, 'key', key, 'answer', answer)
end
