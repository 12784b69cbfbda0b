-- The packed records. Scripts and TypeScript share the definition of their fields (shared/redis/record-formats.ts):
-- `pack_<record>{…}` writes a record, and `--#parse <record>` defines `parse_<record>`, which reads it.
-- A packed string takes a third of the memory of a hash, and one command instead of two.
--   code: number of the used coupon code, as text; "" = none
--   reduced: units of a reservation that were given back while it kept others, `released,refunded,burned`; nil = none

--#parse reservation
--#parse person

local function reservation_text(r)
  local text = pack_reservation{ state = r.state, user = r.user, qty = r.qty, slot = r.slot, due = r.due,
    line_no = r.line_no, order_id = r.order_id, code = r.code }
  return r.reduced and text .. '|' .. r.reduced or text
end

-- Returns a packed reservation with another state.
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

-- Returns the record of a user, nil if it is malformed. A user without a record is `new`.
local function person_in(text)
  if text then return parse_person(text) end
  return { state = 'new', slots = '', line_no = 0, qty = 0, reservation_id = '', order_id = '', code = '' }
end

local function unpack_person(text)
  return assert(person_in(text), 'a person record is malformed')
end

-- Returns the units of a reservation that were given back: released, refunded, and those of them that were burned.
local function reduced_of(reservation)
  local released, refunded, burned = string.match(reservation.reduced or '0,0,0', '^(%d+),(%d+),(%d+)$')
  return tonumber(released), tonumber(refunded), tonumber(burned)
end

-- Returns the lowest free allowance of the user, or nil when all `limit` of them are taken.
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

-- Returns the order id of a reservation without one from the caller. It follows from the reservation id, so places in
-- line need not store it.
local function order_id_of(reservation_id)
  local sub = string.sub
  return 'ord_' .. sub(reservation_id, 1, 8) .. sub(reservation_id, 10, 13) .. sub(reservation_id, 15, 18) ..
    sub(reservation_id, 20, 23) .. sub(reservation_id, 25)
end
