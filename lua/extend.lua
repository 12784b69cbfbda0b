-- Extends the deadline of a reservation once, while a payment is under way. A repetition gets the same deadline. A
-- closed campaign extends none.
--
-- KEYS campaign, people, reservations, deadlines, line, presence, codes, journal, news, epoch, payments
-- ARGV
--   reservation_id
--   extend_ms:int   by how much; 0 = its campaign extends none
--   actor           who extends it, for its history; "" = not known
--   trace           traceparent, "" = none
-- REPLY
--   extended due_ms durable entry...     due_ms: the new deadline; the same for each repetition, which appends no entry
--       durable 0|1: whether responses wait for Postgres; entry: each appended journal entry as JSON (lua/README.md)
--   ended state       released or expired, also if no sweep has run yet
--   not_allowed       the campaign extends none, or is closed, and the reservation was not extended before
--   settled state     redeemed, reacquired, refunded, burned or voided: there is nothing to pay any more
--   archived pass     the campaign is archived and Redis lacks the record; Postgres may have it
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS extended

--#include clock
--#include generation
--#include records
--#include campaign
--#include codes
--#include journal
--#include pace
--#include presence
--#include news
--#include plan

assert(extend_ms >= 0, 'a deadline is extended by less than nothing')

local c = read_campaign(campaign_key)
if not c then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local text = redis.call('HGET', keys.reservations, reservation_id)
if not text and c.archived then return { 'archived', c.archived } end
if not text then return { 'not_found' } end
local reservation = unpack_reservation(text)
local state, now = reservation.state, now_ms()
if state == 'released' or state == 'expired' then return { 'ended', state } end
if state ~= 'reserved' then return { 'settled', state } end
if now >= reservation.due then return { 'ended', 'expired' } end
local durable = c.durable and '1' or '0'
-- A reservation that is not paid has payments only as the mark of its extension: an empty list.
if redis.call('HEXISTS', keys.payments, reservation_id) == 1 then
  return { 'extended', string.format('%d', reservation.due), durable }
end
if c.status == 'closed' or extend_ms == 0 then return { 'not_allowed' } end

local plan = new_plan(c, keys, generation, now)
local due = string.format('%d', reservation.due + extend_ms)
reservation.due = due
local packed = reservation_text(reservation)
plan.reservations[reservation_id] = packed
plan.deadlines[reservation_id] = due
plan.payments[reservation_id] = '[]'
table.insert(plan.news, 'extended|' .. reservation.user .. '|' .. reservation_id .. '|' .. reservation.order_id .. '|' .. due ..
  '|' .. reservation.qty)
add_entry(plan, packed, 'kind', 'extended', 'no', c.no_text, 'at', now, 'reservation', reservation_id, 'due', due,
  'by', actor, 'trace', trace)
return apply(plan, { 'extended', due, durable })
