// Keeps an instance announced to a Grapevine agent. Node 18 or later, no dependencies.
//
//   const announcement = announce({ routeId: 'warehouse', path: '/warehouse/{**catch-all}', address: 'http://10.0.0.5:8080' })
//   ...
//   await announcement.drain()  // before the process ends
//   announcement.close()
'use strict'

const http = require('node:http')

const SILENCE = 30_000 // ms; a live agent says something every 10 s

// ask sends a request to the agent, over its unix socket or TCP, and gives the response.
function ask(agent, method, path, body, onRequest = () => {}) {
  const where = agent.startsWith('unix://') ? { socketPath: agent.slice('unix://'.length), host: 'agent' } : urlOf(agent)
  return new Promise((resolve, reject) => {
    const request = http.request({ ...where, method, path, agent: false, headers: { 'Content-Type': 'application/json' } })
    onRequest(request)
    request.on('response', resolve)
    request.on('error', reject)
    request.setTimeout(SILENCE, () => request.destroy(new Error(`nothing was heard for ${SILENCE} ms`)))
    request.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

function urlOf(agent) {
  const { hostname, port } = new URL(agent)
  return { host: hostname, port: port || 80 }
}

async function textOf(response) {
  let text = ''
  for await (const chunk of response) text += chunk
  return text
}

class Refused extends Error {}

// announce returns an Announcement, which tries until the agent takes it. onEnd is called with an error if the agent
// refuses it, withdraws it, or another connection takes its place.
function announce(instance, options = {}) {
  const announcement = new Announcement(instance, options)
  announcement.run()
  return announcement
}

class Announcement {
  constructor(instance, { agent = process.env.AGENT_ADDR || 'unix:///run/grapevine/agent.sock', onEvent = () => {}, onEnd = () => {} }) {
    Object.assign(this, { instance: { ...instance }, agent, onEvent, onEnd, lease: null, known: false, closed: false })
  }

  async run() {
    for (let pause = 100; !this.closed; ) {
      try {
        await this.hold()
      } catch (error) {
        if (error instanceof Refused) return this.onEnd(error)
        if (!this.closed) this.onEvent({ event: 'lost', reason: error.message })
      }
      if (this.closed) return
      pause = this.lease ? 100 : Math.min(2 * pause, 3000)
      this.lease = null
      await new Promise((resolve) => setTimeout(resolve, pause / 2 + (Math.random() * pause) / 2))
    }
  }

  // hold announces, and takes events until the connection ends.
  async hold() {
    const response = await ask(this.agent, 'POST', '/v1/announce', this.instance, (request) => {
      this.request = request
      request.on('socket', (socket) => socket.on('connect', () => (this.known = true)))
    })
    if (response.statusCode !== 200) {
      const text = await textOf(response)
      throw response.statusCode < 500 && response.statusCode !== 429 ? new Refused(text) : new Error(text)
    }
    let rest = ''
    for await (const chunk of response.setEncoding('utf8')) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() // the beginning of a line that goes on in the next chunk
      for (const line of lines) this.take(JSON.parse(line))
    }
  }

  take(event) {
    if (event.event === 'accepted') {
      this.instance.instanceId = event.instanceId // the same one after a restart of the agent
      this.lease = event.lease
    }
    if (event.event !== 'alive') this.onEvent(event)
    if (!this.closed && (event.event === 'superseded' || event.event === 'withdrawn')) {
      throw new Refused(`${event.event}: ${event.reason}`)
    }
  }

  // drain resolves once no gateway sends requests any more, none is under way and no connection is open, or after the
  // timeout in ms; with what the agent says of it.
  async drain(timeout = 5000) {
    if (!this.known) return { confirmed: 0, of: 0, stragglers: [] } // no agent was ever reached
    this.instance.status = 'draining' // should the agent be restarted meanwhile
    for (const end = Date.now() + timeout; ; ) {
      try {
        const path = `/v1/announce/${this.lease}/drain?timeout=${Math.max(1, end - Date.now())}ms`
        const response = await ask(this.agent, 'POST', path)
        const text = await textOf(response)
        if (response.statusCode === 200) return JSON.parse(text)
        throw new Error(text)
      } catch (error) {
        if (Date.now() >= end) throw error
        await new Promise((resolve) => setTimeout(resolve, 100)) // until the agent is back
      }
    }
  }

  // close ends the connection, which withdraws the instance.
  close() {
    this.closed = true
    this.request?.destroy()
  }
}

module.exports = { announce }
