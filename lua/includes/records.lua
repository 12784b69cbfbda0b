-- The packed records that scripts keep. Their fields are defined once, for scripts and TypeScript
-- (shared/redis/record-formats.ts): `pack_<record>{…}` writes one, `--#parse <record>` makes `parse_<record>`, which reads one.
-- A packed string costs a third of a hash of its own and one command instead of two.
--   code: number of the coupon code that is used, as text; "" = none

--#parse reservation
--#parse person

local function reservation_text(r)
  return pack_reservation{ state = r.state, user = r.user, qty = r.qty, slot = r.slot, due = r.due, line_no = r.line_no,
    order_id = r.order_id, code = r.code }
end

-- A packed reservation that changes its state only.
local function in_state(text, state)
  return state .. string.sub(text, (string.find(text, '|', 1, true)))
end

local function unpack_reservation(text)
  local reservation = assert(parse_reservation(text), 'a reservation record is malformed')
  reservation.packed = text
  return reservation
end

local function person_text(p)
  return pack_person{ state = p.state, slots = p.slots, line_no = p.line_no, qty = p.qty, reservation_id = p.reservation_id,
    order_id = p.order_id, code = p.code }
end

-- A user without a record is `new`. Returns nil for a malformed record.
local function person_in(text)
  if text then return parse_person(text) end
  return { state = 'new', slots = '', line_no = 0, qty = 0, reservation_id = '', order_id = '', code = '' }
end

local function unpack_person(text)
  return assert(person_in(text), 'a person record is malformed')
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
