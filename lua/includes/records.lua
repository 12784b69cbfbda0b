-- The packed records that scripts keep, and how they are read and written. Fields are separated by "|", which no id may
-- contain. A packed string costs a third of a hash of its own and one command instead of two.
--   reservation: state|user|qty|slot|due_ms|line_no|order_id|code
--     state: reserved, redeemed, reacquired (redeemed after it had ended), released, expired, refunded, burned, voided
--   person:      state|slots|line_no|qty|reservation_id|order_id|code
--     state: queued, held (see the reservation), left; slots: which of the user's allowances are taken ("1,3", "" = none)
--   code: number of the coupon code that is used, "" = none

local function reservation_text(state, user, qty, slot, due, line_no, order_id, code)
  return state .. '|' .. user .. '|' .. qty .. '|' .. slot .. '|' .. due .. '|' .. line_no .. '|' .. order_id .. '|' .. code
end

local function pack_reservation(r)
  return reservation_text(r.state, r.user, r.qty, r.slot, r.due, r.line_no, r.order_id, r.code)
end

-- A packed reservation that changes its state only.
local function in_state(text, state)
  return state .. string.sub(text, (string.find(text, '|', 1, true)))
end

local function unpack_reservation(text)
  local state, user, qty, slot, due, line_no, order_id, code =
    string.match(text, '^([^|]*)|([^|]*)|(%d+)|(%d+)|(%d+)|(%d+)|([^|]*)|([^|]*)$')
  assert(state, 'a reservation record is malformed')
  return {
    state = state, user = user, qty = tonumber(qty), slot = tonumber(slot), due = tonumber(due),
    line_no = tonumber(line_no), order_id = order_id, code = code, packed = text,
  }
end

local function person_text(state, slots, line_no, qty, reservation_id, order_id, code)
  return state .. '|' .. slots .. '|' .. line_no .. '|' .. qty .. '|' .. reservation_id .. '|' .. order_id .. '|' .. code
end

local function pack_person(p)
  return person_text(p.state, p.slots, p.line_no, p.qty, p.reservation_id, p.order_id, p.code)
end

-- A user without a record is `new`. Returns nil for a malformed record.
local function parse_person(text)
  if not text then return { state = 'new', slots = '', line_no = 0, qty = 0, reservation_id = '', order_id = '', code = '' } end
  local state, slots, line_no, qty, reservation_id, order_id, code =
    string.match(text, '^([^|]*)|([%d,]*)|(%d+)|(%d+)|([^|]*)|([^|]*)|([^|]*)$')
  if not state then return nil end
  return {
    state = state, slots = slots, line_no = tonumber(line_no), qty = tonumber(qty),
    reservation_id = reservation_id, order_id = order_id, code = code,
  }
end

local function unpack_person(text)
  return assert(parse_person(text), 'a person record is malformed')
end

-- The lowest allowance of the user that is free, or nil when all `limit` of them are taken.
local function free_slot(slots, limit)
  if slots == '' then return 1 end
  local padded = ',' .. slots .. ','
  for slot = 1, limit do
    if not string.find(padded, ',' .. slot .. ',', 1, true) then return slot end
  end
  return nil
end

local function with_slot(slots, slot)
  if slots == '' then return tostring(slot) end
  return slots .. ',' .. slot
end

local function without_slot(slots, slot)
  local kept = {}
  for taken in string.gmatch(slots, '%d+') do
    if tonumber(taken) ~= slot then kept[#kept + 1] = taken end
  end
  return table.concat(kept, ',')
end

-- An order id that nobody supplied is made from the reservation's, so that it need not be stored for those who wait.
local function order_id_of(reservation_id)
  local sub = string.sub
  return 'ord_' .. sub(reservation_id, 1, 8) .. sub(reservation_id, 10, 13) .. sub(reservation_id, 15, 18) ..
    sub(reservation_id, 20, 23) .. sub(reservation_id, 25, 28)
end
