// Asks a server of finished jobs the same questions as the Go clients (../client), through
// @elastic/elasticsearch. The arguments are the directory that has node_modules, the server's URL, and
// a directory with documents.json and questions.json.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const [modules, url, directory] = process.argv.slice(2)
const { Client, errors } = createRequire(join(modules, 'package.json'))('@elastic/elasticsearch')
const read = (name) => JSON.parse(readFileSync(join(directory, name), 'utf8'))
const documents = read('documents.json')
const questions = read('questions.json')
const index = 'vale'
const page = 17
const client = new Client({ node: url, maxRetries: 0, compression: true })

// show prints an answer, or the server's error as the client reports it. Other errors end the program.
async function show (name, ask) {
  let out
  try {
    out = { name, answer: await ask() }
  } catch (e) {
    if (!(e instanceof errors.ResponseError)) throw e
    const cause = e.body.error
    out = { name, failure: { class: e.name, status: e.statusCode, type: cause.type, reason: cause.reason } }
  }
  process.stdout.write(JSON.stringify(out) + '\n')
  return !out.failure
}

// walk returns the ids of all jobs, page by page.
async function walk () {
  const ids = []
  for (let after; ;) {
    const found = await client.search({ index, size: page, sort: [{ '@end': 'desc' }, 'jobid'], _source: false, ...(after && { search_after: after }) })
    for (const hit of found.hits.hits) {
      ids.push(hit._id)
      after = hit.sort
    }
    if (found.hits.hits.length < page) return ids
  }
}

await show('info', () => client.info())
await show('index', () => client.index({ index, document: documents[0], refresh: true }))
await show('bulk', async () => {
  const stats = await client.helpers.bulk({
    datasource: documents.slice(1), flushBytes: 4096, concurrency: 2, refreshOnCompletion: true, onDocument: () => ({ index: { _index: index } })
  })
  if (stats.failed !== 0) throw new Error(JSON.stringify(stats))
  return stats.successful
})
await show('mapping', () => client.indices.getMapping({ index }))
await show('count', () => client.count({ index, query: { term: { state: 'FAILED' } } }))
const searches = []
for (const { name, body } of questions) {
  if (await show(name, () => client.search({ index, ...body }))) searches.push({}, body)
}
await show('msearch', () => client.msearch({ index, searches }))
await show('absent', () => client.search({ index: 'absent' }))
await show('walk', walk)
