// A service that announces itself, and on SIGTERM leaves without a failed request.
//
//   node service.js 9002 http://127.0.0.1:9002
'use strict'

const http = require('node:http')
const { announce } = require('./announce.js')

const port = Number(process.argv[2] || 9002)
const address = process.argv[3] || `http://127.0.0.1:${port}` // where the gateways reach it

const server = http.createServer((request, response) => response.end(`hello from node: ${request.url}\n`))

// Listen first, then announce; drain first, then stop.
server.listen(port, '127.0.0.1', () => {
  const announcement = announce(
    { routeId: 'warehouse', path: '/warehouse/{**catch-all}', pathRemovePrefix: '/warehouse', address },
    {
      onEvent: (event) => console.log(JSON.stringify(event)),
      onEnd: (error) => {
        console.error(error.message)
        process.exit(1)
      },
    },
  )
  const stop = async () => {
    try {
      console.log('drained', JSON.stringify(await announcement.drain(5000)))
    } catch (error) {
      console.error('drain:', error.message) // the agent is gone: stop all the same
    }
    announcement.close()
    server.close()
    server.closeIdleConnections()
  }
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
})
