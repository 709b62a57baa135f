-- Borrows a slot and returns it, for wrk. Each connection has what it borrowed itself: answers come in order.
local pool, token = os.getenv("POOL"), os.getenv("TOKEN")
local headers = {}
if token and token ~= "" then headers["Authorization"] = "Bearer " .. token end
local leases = {}

request = function()
  local lease = table.remove(leases)
  if lease then
    return wrk.format("POST", "/l/" .. pool .. "/return", headers, '{"lease":"' .. lease .. '"}')
  end
  return wrk.format("POST", "/l/" .. pool .. "/borrow", headers, '{"ttl":600}')
end

response = function(status, _, body)
  if status ~= 200 then io.stderr:write(status .. " " .. body .. "\n") end
  local lease = body:match('"lease":"([^"]+)"')
  if lease then table.insert(leases, lease) end
end
